//! Describes tensors, and walks through their elements.

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnDataType_t as DataType};
use rayon::prelude::*;

use super::element;

/// Maximum number of elements of a tensor, and of the distance between the first and the last one. It is so small that
/// sizes in bytes never overflow.
const MAX_ELEMENTS: usize = 1 << 48;
/// The number of elements that a thread handles at once.
pub(super) const ELEMENTS_AT_ONCE: usize = 1 << 15;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) uid: i64,
    pub(super) ty: DataType,
    pub(super) dims: Vec<usize>,
    pub(super) strides: Vec<usize>,
    pub(super) is_virtual: bool,
    pub(super) is_by_value: bool,
    /// Whether dimensions and strides describe the positions of all elements.
    pub(super) is_plain: bool,
}

impl Tensor {
    pub(super) fn new(node: &Node) -> Result<Self, String> {
        let uid = node.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).unwrap_or(0);
        let number = |name| node.integer(name).unwrap_or(0);
        let lengths = |name| {
            let numbers = node.integers(name).iter().map(|number| usize::try_from(*number).ok());
            numbers
                .collect::<Option<Vec<usize>>>()
                .ok_or_else(|| format!("tensor {uid} has a negative extent or stride"))
        };
        let vector = usize::try_from(number(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT)).unwrap_or(1).max(1);
        let mut tensor = Tensor {
            uid,
            ty: DataType(number(Name::CUDNN_ATTR_TENSOR_DATA_TYPE) as _),
            dims: lengths(Name::CUDNN_ATTR_TENSOR_DIMENSIONS)?,
            strides: lengths(Name::CUDNN_ATTR_TENSOR_STRIDES)?,
            is_virtual: number(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0,
            is_by_value: node.is_by_value(),
            is_plain: node.value(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_none()
                && number(Name::CUDNN_ATTR_TENSOR_REORDERING_MODE) == 0
                && vector == 1,
        };
        if vector > 1 {
            // The elements of a vector are adjacent.
            tensor.strides.iter_mut().for_each(|stride| *stride = stride.saturating_mul(vector));
            tensor.strides.push(1);
            tensor.dims.push(vector);
        }
        let count = tensor.dims.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
        let last = tensor.dims.iter().zip(&tensor.strides).try_fold(0_usize, |last, (extent, stride)| {
            last.checked_add(extent.saturating_sub(1).checked_mul(*stride)?)
        });
        let is_small = count.is_some_and(|count| count <= MAX_ELEMENTS) && last.is_some_and(|last| last < MAX_ELEMENTS);
        if !is_small || tensor.dims.len() != tensor.strides.len() || tensor.dims.len() > 16 {
            return Err(format!("tensor {uid} is too large"));
        }
        Ok(tensor)
    }

    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns the number of bytes from the first to the last element, or 0 if the size of an element is unknown.
    pub(super) fn span(&self) -> usize {
        let last: usize =
            self.dims.iter().zip(&self.strides).map(|(extent, stride)| extent.saturating_sub(1) * stride).sum();
        if self.count() == 0 { 0 } else { (last + 1) * element::size(self.ty).unwrap_or(0) }
    }

    /// Returns the offsets in elements. The last dimension varies fastest.
    pub(super) fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        self.walk().map(|[offset]| offset)
    }

    fn walk(&self) -> Walk<1> {
        Walk::new(&self.dims, [&self.strides])
    }

    /// Returns the indices of the elements in memory order, or `None` if there are gaps or shared elements.
    pub(super) fn indices_in_memory(&self) -> Option<Walk<1>> {
        let mut axes: Vec<_> = self.strides.iter().zip(&self.dims).zip(dense_strides(&self.dims)).collect();
        axes.retain(|((_, extent), _)| **extent > 1);
        axes.sort_by(|((a, _), _), ((b, _), _)| b.cmp(a));
        let dims: Vec<usize> = axes.iter().map(|((_, extent), _)| **extent).collect();
        let strides: Vec<usize> = axes.iter().map(|((stride, _), _)| **stride).collect();
        let steps: Vec<usize> = axes.iter().map(|(_, step)| *step).collect();
        (self.count() > 0 && strides == dense_strides(&dims)).then(|| Walk::new(&dims, [&steps]))
    }

    /// Returns whether two copies of the memory have the same elements. Gaps may differ.
    pub(super) fn has_equal_elements(&self, a: &[u8], b: &[u8]) -> bool {
        if !self.is_plain {
            return a == b;
        }
        let size = element::size(self.ty).unwrap_or(1);
        self.offsets()
            .map(|offset| offset * size..(offset + 1) * size)
            .all(|range| a.get(range.clone()) == b.get(range))
    }

    /// Returns an element. The memory starts with the first element.
    pub(super) fn element(&self, memory: &[u8], index: usize) -> f64 {
        let offset: usize =
            positions(index, &self.dims).iter().zip(&self.strides).map(|(position, stride)| position * stride).sum();
        let size = element::size(self.ty).unwrap_or(1);
        element::decode(self.ty, memory.get(offset * size..).unwrap_or_default())
    }

    /// Returns the values. The memory starts with the first element.
    pub(super) fn read(&self, memory: &[u8]) -> Array {
        let size = element::size(self.ty).unwrap_or(1);
        let value = |offset: usize| element::decode(self.ty, memory.get(offset * size..).unwrap_or_default());
        Array { dims: self.dims.clone(), values: self.walk().values(|_, [offset]| value(offset)) }
    }
}

/// Returns the larger number, or NaN if one of them is NaN.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) dims: Vec<usize>,
    pub(super) values: Vec<f64>,
}

impl Array {
    pub(super) fn filled(dims: &[usize], value: f64) -> Self {
        Array { dims: dims.to_vec(), values: vec![value; dims.iter().product()] }
    }

    pub(super) fn get(&self, index: usize) -> f64 {
        self.values.get(index).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn update(&mut self, index: usize, function: impl FnOnce(f64) -> f64) {
        if let Some(value) = self.values.get_mut(index) {
            *value = function(*value);
        }
    }

    pub(super) fn strides_in(&self, dims: &[usize]) -> Result<Vec<usize>, String> {
        broadcast_strides(&self.dims, dims)
    }
}

/// Returns the strides that broadcast an array with the extents `own` to the extents `dims`, by repeating extents of 1.
pub(super) fn broadcast_strides(own: &[usize], dims: &[usize]) -> Result<Vec<usize>, String> {
    let mut strides = vec![0; dims.len()];
    let mut stride = 1;
    let mut extents = own.iter().rev();
    for (target, extent) in strides.iter_mut().zip(dims).rev() {
        let own_extent = extents.next().copied().unwrap_or(1);
        if own_extent != 1 && own_extent != *extent {
            return Err(format!("the extents {own:?} contradict {dims:?}"));
        }
        *target = if own_extent == 1 { 0 } else { stride };
        stride *= own_extent;
    }
    match extents.all(|extent| *extent == 1) {
        true => Ok(strides),
        false => Err(format!("the extents {own:?} contradict {dims:?}")),
    }
}

pub(super) fn dense_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides: Vec<usize> = dims
        .iter()
        .rev()
        .scan(1, |stride: &mut usize, extent| {
            let own = *stride;
            *stride = stride.saturating_mul(*extent);
            Some(own)
        })
        .collect();
    strides.reverse();
    strides
}

pub(super) fn positions(index: usize, dims: &[usize]) -> Vec<usize> {
    dense_strides(dims).iter().zip(dims).map(|(stride, extent)| index / stride.max(&1) % extent.max(&1)).collect()
}

/// The offsets of the elements in several arrays, in the order of the indices.
#[derive(Clone)]
pub(super) struct Walk<const N: usize> {
    /// The dimensions. Adjacent ones with a common step in each array are merged.
    axes: Vec<Axis<N>>,
    offsets: [usize; N],
    left: usize,
}

#[derive(Clone)]
struct Axis<const N: usize> {
    extent: usize,
    position: usize,
    steps: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// Walks through these extents in arrays with these strides.
    pub(super) fn new(dims: &[usize], strides: [&[usize]; N]) -> Self {
        let mut axes = Vec::<Axis<N>>::new();
        for (index, extent) in dims.iter().enumerate().filter(|(_, extent)| **extent != 1) {
            let steps = strides.map(|strides| strides.get(index).copied().unwrap_or(0));
            match axes.last_mut() {
                Some(axis) if axis.steps == steps.map(|step| step.wrapping_mul(*extent)) => {
                    (axis.extent, axis.steps) = (axis.extent.wrapping_mul(*extent), steps);
                }
                _ => axes.push(Axis { extent: *extent, position: 0, steps }),
            }
        }
        Walk { axes, offsets: [0; N], left: dims.iter().product() }
    }

    /// Applies a function to each index and its offsets in threads.
    pub(super) fn values(&self, function: impl Fn(usize, [usize; N]) -> f64 + Sync) -> Vec<f64> {
        let mut values = vec![0.0; self.left];
        values.par_chunks_mut(ELEMENTS_AT_ONCE).enumerate().for_each(|(number, values)| {
            let indices = number * ELEMENTS_AT_ONCE..;
            let walk = self.clone().starting_at(indices.start);
            values.iter_mut().zip(indices.zip(walk)).for_each(|(to, (index, offsets))| *to = function(index, offsets));
        });
        values
    }

    pub(super) fn starting_at(mut self, index: usize) -> Self {
        let mut rest = index;
        self.offsets = [0; N];
        for axis in self.axes.iter_mut().rev() {
            axis.position = rest % axis.extent.max(1);
            rest /= axis.extent.max(1);
            self.offsets.iter_mut().zip(&axis.steps).for_each(|(offset, step)| *offset += step * axis.position);
        }
        self.left = self.left.saturating_sub(index);
        self
    }
}

impl<const N: usize> Iterator for Walk<N> {
    type Item = [usize; N];

    fn next(&mut self) -> Option<[usize; N]> {
        self.left = self.left.checked_sub(1)?;
        let current = self.offsets;
        for axis in self.axes.iter_mut().rev() {
            axis.position += 1;
            let is_over = axis.position == axis.extent;
            for (offset, step) in self.offsets.iter_mut().zip(&axis.steps) {
                *offset = if is_over { *offset - step * (axis.extent - 1) } else { *offset + step };
            }
            if !is_over {
                break;
            }
            axis.position = 0;
        }
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_graph::Graph;

    fn tensor(text: &str) -> Result<Tensor, String> {
        let graph: Graph = serde_json::from_str(&format!("[{{\"kind\":\"TENSOR\",{text}}}]")).unwrap();
        Tensor::new(graph.root().unwrap())
    }

    #[test]
    fn elements_are_visited_in_the_order_of_their_indices() {
        let tensor = tensor(r#""TENSOR_DIMENSIONS:3":[2,3],"TENSOR_STRIDES:3":[1,4],"TENSOR_DATA_TYPE:1":2"#).unwrap();
        assert_eq!(tensor.offsets().collect::<Vec<_>>(), [0, 4, 8, 1, 5, 9]);
        assert_eq!((tensor.count(), tensor.span()), (6, 20));
        let bytes: Vec<u8> = (0..10_u8).flat_map(|index| half::f16::from_f32(f32::from(index)).to_le_bytes()).collect();
        assert_eq!(tensor.read(&bytes).values, [0.0, 4.0, 8.0, 1.0, 5.0, 9.0]);
        assert_eq!((0..6).map(|index| tensor.element(&bytes, index)).collect::<Vec<_>>(), tensor.read(&bytes).values);
    }

    #[test]
    fn elements_are_visited_in_the_order_of_memory() {
        let text = r#""TENSOR_DIMENSIONS:3":[2,3,1,2],"TENSOR_STRIDES:3":<strides>,"TENSOR_DATA_TYPE:1":2"#;
        let indices = |strides| {
            let tensor = tensor(&text.replace("<strides>", strides)).unwrap();
            let mut expected: Vec<_> = tensor.offsets().zip(0..).collect();
            expected.sort_unstable();
            let expected: Vec<usize> = expected.into_iter().map(|(_, index)| index).collect();
            tensor.indices_in_memory().map(|walk| (walk.map(|[index]| index).collect::<Vec<_>>(), expected))
        };
        for strides in ["[6,1,1,3]", "[6,2,99,1]", "[1,4,1,2]"] {
            let (found, expected) = indices(strides).unwrap();
            assert_eq!(found, expected, "{strides}");
        }
        assert!(indices("[12,1,1,3]").is_none() && indices("[6,1,1,0]").is_none());
    }

    #[test]
    fn vectors_are_adjacent() {
        let text =
            r#""TENSOR_DIMENSIONS:3":[2,3],"TENSOR_STRIDES:3":[3,1],"TENSOR_DATA_TYPE:1":3,"TENSOR_VECTOR_COUNT:3":4"#;
        let tensor = tensor(text).unwrap();
        assert_eq!((tensor.count(), tensor.span(), tensor.is_plain), (24, 24, false));
        assert!(tensor.offsets().eq(0..24));
    }

    #[test]
    fn arrays_are_broadcast() {
        let array = Array { dims: vec![1, 3, 1], values: vec![0.0; 3] };
        assert_eq!(array.strides_in(&[2, 3, 4]).unwrap(), [0, 1, 0]);
        assert_eq!(Array::filled(&[4], 0.0).strides_in(&[2, 4]).unwrap(), [0, 1]);
        assert!(array.strides_in(&[2, 4, 4]).is_err() && Array::filled(&[2, 4], 0.0).strides_in(&[4]).is_err());
        let walked: Vec<_> = Walk::new(&[2, 2], [&[2, 1], &[0, 1]]).collect();
        assert_eq!(walked, [[0, 0], [1, 1], [2, 0], [3, 1]]);
        assert_eq!(Walk::new(&[0, 2], [&[2, 1]]).count(), 0);
        assert_eq!(Walk::new(&[], [&[]]).count(), 1);
        let walk = Walk::new(&[2, 1, 3, 4], [&[12, 7, 4, 1], &[1, 0, 8, 2]]);
        for start in 0..=24 {
            assert!(walk.clone().starting_at(start).eq(walk.clone().skip(start)), "{start}");
        }
    }

    #[test]
    fn sizes_from_a_file_are_bounded() {
        for text in [
            r#""TENSOR_DIMENSIONS:3":[9223372036854775807,2],"TENSOR_STRIDES:3":[1,1]"#,
            r#""TENSOR_DIMENSIONS:3":[2,2],"TENSOR_STRIDES:3":[9223372036854775807,9223372036854775807]"#,
            r#""TENSOR_DIMENSIONS:3":[562949953421312],"TENSOR_STRIDES:3":[0]"#,
            r#""TENSOR_DIMENSIONS:3":[-1],"TENSOR_STRIDES:3":[1]"#,
            r#""TENSOR_DIMENSIONS:3":[2,2],"TENSOR_STRIDES:3":[1]"#,
        ] {
            assert!(tensor(text).is_err(), "{text}");
        }
    }
}
