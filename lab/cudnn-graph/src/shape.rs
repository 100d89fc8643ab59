//! Computes the shapes that operations produce.
//!
//! A function returns `None` if the shape is unknown, for example because cuDNN interprets the dimensions differently.

use cudnn_sys::types::cudnnBackendAttributeName_t as Name;

use crate::graph::Node;

/// The result of combining the operands of a pointwise operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// The shape of the result.
    Shape(Vec<i64>),
    /// The index of a dimension in which two extents differ and neither is 1.
    Impossible(usize),
}

/// Combines operands with the same rank.
pub fn broadcast(operands: &[&[i64]]) -> Option<Broadcast> {
    let (first, rest) = operands.split_first()?;
    let mut shape = first.to_vec();
    for operand in rest {
        if operand.len() != shape.len() {
            return None;
        }
        for (index, (extent, other)) in shape.iter_mut().zip(*operand).enumerate() {
            if *extent == 1 {
                *extent = *other;
            } else if *other != 1 && other != extent {
                return Some(Broadcast::Impossible(index));
            }
        }
    }
    Some(Broadcast::Shape(shape))
}

/// Returns whether a pointwise operation can write this output, with operands of extent 1 repeated.
pub fn is_broadcast_to(shape: &[i64], output: &[i64]) -> bool {
    shape.len() != output.len() || shape.iter().zip(output).all(|(from, to)| from == to || *from == 1)
}

/// Returns whether a reduction can write this output: each dimension is unchanged or reduced in groups of equal size.
/// For example, gradients of a grouped attention are sums over groups of heads.
pub fn is_reduced_to(shape: &[i64], output: &[i64]) -> bool {
    let is_part = |(from, to): (&i64, &i64)| *to > 0 && from.checked_rem(*to) == Some(0);
    shape.len() != output.len() || shape.iter().zip(output).all(is_part)
}

/// Returns the output of a matrix product. The batch dimensions that cuDNN repeats in other ways, such as the heads of
/// a grouped attention, are copied from the actual output.
pub fn product(a: &[i64], b: &[i64], c: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len();
    if rank < 2 || b.len() != rank || c.len() != rank {
        return None;
    }
    let ((batch_a, [rows, _]), (batch_b, [_, columns])) = (a.split_last_chunk::<2>()?, b.split_last_chunk::<2>()?);
    let batch =
        batch_a.iter().zip(batch_b).zip(c).map(|((a, b), c)| if a == b || *a == 1 || *b == 1 { *a.max(b) } else { *c });
    Some(batch.chain([*rows, *columns]).collect())
}

/// The parameters of a convolution for one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The elements before the first one.
    pub before: i64,
    /// The elements after the last one.
    pub after: i64,
    /// The step of the filter.
    pub stride: i64,
    /// The distance between the filter's elements.
    pub dilation: i64,
}

/// Returns the parameters in the descriptor of a convolution, if all are set.
pub fn axes(convolution: &Node) -> Option<Vec<Axis>> {
    let [before, after, strides, dilations] = [
        Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        Name::CUDNN_ATTR_CONVOLUTION_DILATIONS,
    ]
    .map(|name| convolution.integers(name));
    let spatial = convolution.integer(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    let spatial = spatial.map_or(Some(before.len()), |spatial| usize::try_from(spatial).ok())?;
    let axis = |index| {
        let of = |integers: &[i64]| integers.get(index).copied();
        Some(Axis { before: of(before)?, after: of(after)?, stride: of(strides)?, dilation: of(dilations)? })
    };
    (spatial <= 8).then(|| (0..spatial).map(axis).collect()).flatten()
}

/// Returns the output of a convolution of the image `x` with the filter `w`.
pub fn convolved(x: &[i64], w: &[i64], axes: &[Axis]) -> Option<Vec<i64>> {
    let ([batch, channels, image @ ..], [outputs, group, filter @ ..]) = (x, w) else { return None };
    let is_divisible = *group > 0 && channels % group == 0;
    let spatial = spatial(image, filter, axes).filter(|_| is_divisible)?;
    Some([*batch, *outputs].into_iter().chain(spatial).collect())
}

/// Returns the extents of a convolution's output without batch and channels.
pub fn spatial(image: &[i64], filter: &[i64], axes: &[Axis]) -> Option<Vec<i64>> {
    if image.len() != axes.len() || filter.len() != axes.len() {
        return None;
    }
    let extent = |((image, filter), axis): ((&i64, &i64), &Axis)| {
        let reach = filter.checked_sub(1)?.checked_mul(axis.dilation)?.checked_add(1)?;
        let padded = image.checked_add(axis.before)?.checked_add(axis.after)?;
        let steps = padded.checked_sub(reach).filter(|steps| *steps >= 0)?;
        (axis.stride > 0).then(|| steps / axis.stride + 1)
    };
    image.iter().zip(filter).zip(axes).map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_broadcast() {
        let of = |operands: &[&[i64]]| broadcast(operands);
        assert_eq!(of(&[&[4, 64, 1], &[1, 64, 8]]), Some(Broadcast::Shape(vec![4, 64, 8])));
        assert_eq!(of(&[&[4, 64, 64], &[1, 3, 64]]), Some(Broadcast::Impossible(1)));
        assert_eq!(of(&[&[4, 64], &[1, 3, 64]]), None);
        assert!(is_broadcast_to(&[1, 64], &[4, 64]) && !is_broadcast_to(&[4, 64], &[1, 64]));
        assert!(is_reduced_to(&[4, 64], &[4, 1]) && !is_reduced_to(&[4, 64], &[4, 65]));
        assert!(is_reduced_to(&[2, 8, 64], &[2, 2, 64]) && !is_reduced_to(&[2, 8, 64], &[2, 3, 64]));
    }

    #[test]
    fn products_have_the_rows_of_a_and_the_columns_of_b() {
        assert_eq!(product(&[2, 1, 5, 7], &[1, 8, 7, 3], &[0; 4]), Some(vec![2, 8, 5, 3]));
        assert_eq!(product(&[1, 8, 5, 7], &[1, 2, 7, 3], &[1, 8, 5, 3]), Some(vec![1, 8, 5, 3]));
        assert_eq!(product(&[5, 7], &[1, 7, 3], &[5, 3]), None);
    }

    #[test]
    fn convolutions_depend_on_all_parameters() {
        let axis = |before, after, stride, dilation| Axis { before, after, stride, dilation };
        let of = |image, filter, axis| convolved(&[4, 16, image], &[32, 8, filter], &[axis]);
        assert_eq!(of(14, 3, axis(1, 1, 1, 1)), Some(vec![4, 32, 14]));
        assert_eq!(of(14, 3, axis(1, 0, 2, 1)), Some(vec![4, 32, 7]));
        assert_eq!(of(14, 3, axis(0, 0, 1, 2)), Some(vec![4, 32, 10]));
        assert_eq!(of(2, 3, axis(0, 0, 1, 1)), None);
        assert_eq!(of(14, 3, axis(0, 0, 0, 1)), None);
        assert_eq!(convolved(&[4, 15, 14], &[32, 8, 3], &[axis(0, 0, 1, 1)]), None);
        assert_eq!(of(i64::MAX, 3, axis(1, 1, 1, i64::MAX)), None);
    }
}
