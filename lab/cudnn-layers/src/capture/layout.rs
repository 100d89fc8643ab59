//! Describes the memory of an execution by buffers and offsets instead of addresses.

use cudnn_capture_file::{Graph, Memory, Node, Value, element_bits};
use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
};

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) address: u64,
    /// In bytes, if it is known.
    pub(super) span: Option<u64>,
    pub(super) is_host: bool,
}

impl Range {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.span.unwrap_or(0))
    }
}

/// The largest alignment that is distinguished.
const MAX_ALIGNMENT: u32 = 12;

/// Describes ranges. Ranges that overlap are in one buffer. Buffers are numbered in the order of the ranges.
pub(super) fn buffers(ranges: &[Range]) -> Vec<Memory> {
    let mut sorted: Vec<(usize, &Range)> = ranges.iter().enumerate().collect();
    sorted.sort_by_key(|(_, range)| (range.is_host, range.address));
    // The first address of each range's buffer.
    let mut starts = vec![0; ranges.len()];
    let mut buffer: Option<(bool, u64, u64)> = None;
    for (place, range) in sorted {
        let (start, end) = match buffer {
            Some((is_host, start, end))
                if is_host == range.is_host && (range.address < end || range.address == start) =>
            {
                (start, end)
            }
            _ => (range.address, range.end()),
        };
        buffer = Some((range.is_host, start, end.max(range.end())));
        if let Some(of_range) = starts.get_mut(place) {
            *of_range = start;
        }
    }
    let mut numbered: Vec<(bool, u64)> = Vec::new();
    let describe = |(range, start): (&Range, u64)| {
        let key = (range.is_host, start);
        let buffer = numbered.iter().position(|known| *known == key).unwrap_or_else(|| {
            numbered.push(key);
            numbered.len() - 1
        });
        let offset = range.address - start;
        let alignment = 1 << range.address.trailing_zeros().min(MAX_ALIGNMENT);
        Memory { buffer, offset, span: range.span, alignment, is_host: range.is_host }
    };
    ranges.iter().zip(starts).map(describe).collect()
}

/// Returns the tensor with this id.
pub(super) fn tensor(graph: &Graph, uid: i64) -> Option<&Node> {
    graph.tensors().find(|tensor| tensor.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID) == Some(uid))
}

/// Returns the number of bytes between the first and the last element. `None` if the strides or the type do not tell.
pub(super) fn span(tensor: &Node) -> Option<u64> {
    debug_assert_eq!(tensor.kind, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if tensor.value(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_some() {
        return None;
    }
    let extents = tensor.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let Some(Value::Integers(strides)) = tensor.value(Name::CUDNN_ATTR_TENSOR_STRIDES) else { return None };
    if extents.len() != strides.len() {
        return None;
    }
    let mut last: u64 = 0;
    for (extent, stride) in extents.iter().zip(strides) {
        let steps = u64::try_from(extent.checked_sub(1)?).ok()?;
        last = last.checked_add(steps.checked_mul(u64::try_from(*stride).ok()?)?)?;
    }
    let vector = tensor.integer(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).unwrap_or(1).max(1);
    let elements = last.checked_add(1)?.checked_mul(vector.cast_unsigned())?;
    let bits = element_bits(DataType(tensor.integer(Name::CUDNN_ATTR_TENSOR_DATA_TYPE)? as u32))?;
    Some(elements.checked_mul(bits)?.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(address: u64, span: u64) -> Range {
        Range { address, span: Some(span), is_host: false }
    }

    #[test]
    fn ranges_that_overlap_share_a_buffer() {
        let ranges = [range(0x5000, 16), range(0x1000, 0x100), range(0x1100, 8), range(0x1080, 0x84), range(0x1104, 4)];
        let places: Vec<_> = buffers(&ranges).iter().map(|memory| (memory.buffer, memory.offset)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (1, 0x100), (1, 0x80), (1, 0x104)]);
        let host = Range { is_host: true, ..range(0x1000, 8) };
        assert_eq!(buffers(&[range(0x1000, 8), host]).last().map(|memory| memory.buffer), Some(1));
        let alignments: Vec<_> = buffers(&ranges).iter().map(|memory| memory.alignment).collect();
        assert_eq!(alignments, [4096, 4096, 256, 128, 4]);
        // Adjacent allocations are separate.
        let ranges = [range(0x1100, 8), range(0x1000, 0x100), range(0x1108, 4)];
        assert_eq!(buffers(&ranges).iter().map(|memory| memory.buffer).collect::<Vec<_>>(), [0, 1, 2]);
        let unknown = Range { span: None, ..range(0x1100, 0) };
        let ranges = [unknown, range(0x1000, 0x100), range(0x1100, 8), unknown];
        assert_eq!(buffers(&ranges).iter().map(|memory| memory.buffer).collect::<Vec<_>>(), [0, 1, 0, 0]);
        assert_eq!(buffers(&[Range { span: None, ..range(u64::MAX, 0) }, range(u64::MAX - 1, 99)]).len(), 2);
    }

    #[test]
    fn the_span_follows_the_strides() {
        let tensor = |extents: &[i64], strides: &[i64], ty: i64| {
            let mut json = serde_json::json!([{"kind": "TENSOR"}]);
            json[0]["TENSOR_DATA_TYPE:1"] = ty.into();
            json[0]["TENSOR_DIMENSIONS:3"] = extents.into();
            json[0]["TENSOR_STRIDES:3"] = strides.into();
            let graph: Graph = serde_json::from_value(json).unwrap();
            span(graph.root().unwrap())
        };
        let half = DataType::CUDNN_DATA_HALF.0.into();
        assert_eq!(tensor(&[2, 3, 4], &[12, 4, 1], half), Some(48));
        assert_eq!(tensor(&[2, 3, 4], &[100, 1, 3], half), Some(2 * (100 + 2 + 9 + 1)));
        assert_eq!(tensor(&[3], &[1], DataType::CUDNN_DATA_INT4.0.into()), Some(2));
        assert_eq!(tensor(&[2, 3], &[1], half), None);
        assert_eq!(tensor(&[i64::MAX, 3], &[i64::MAX, 1], half), None);
        assert_eq!(tensor(&[2], &[-1], half), None);
        assert_eq!(tensor(&[2], &[1], 9999), None);
    }
}
