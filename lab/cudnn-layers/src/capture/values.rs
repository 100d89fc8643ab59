//! Examines the values of tensors: whether they are finite, and whether they are equal.

use std::hash::Hasher;

use cudnn_graph::{Node, element_bits};
use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnDataType_t as DataType};

/// Calls `visit` with all runs of adjacent elements. Skips bytes between elements, because they may belong to something
/// else. `bytes` starts with the first element.
fn visit_elements(tensor: &Node, bytes: &[u8], visit: &mut impl FnMut(&[u8])) {
    let vector = tensor.integer(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).unwrap_or(1).max(1) as usize;
    let bits = element_bits(data_type(tensor)).unwrap_or(0) as usize;
    if !bits.is_multiple_of(8) {
        return visit(bytes);
    }
    let extents = tensor.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let strides = tensor.integers(Name::CUDNN_ATTR_TENSOR_STRIDES);
    let dims = extents.iter().zip(strides).map(|(extent, stride)| (*extent as usize, *stride as usize));
    // Dimensions with a stride of 0 repeat the same elements.
    let mut dims: Vec<(usize, usize)> = dims.filter(|(extent, stride)| *extent > 1 && *stride > 0).collect();
    dims.sort_by_key(|(_, stride)| std::cmp::Reverse(*stride));
    let mut run = 1;
    while let Some((extent, _)) = dims.pop_if(|(_, stride)| *stride == run) {
        run *= extent;
    }
    let element = vector * bits / 8;
    visit_runs(&dims, 0, &mut |first| {
        let bytes = bytes.get(first * element..).and_then(|rest| rest.get(..run * element));
        visit(bytes.unwrap_or_default());
    });
}

/// Calls `visit` with the offsets of all combinations of indices.
fn visit_runs(dims: &[(usize, usize)], first: usize, visit: &mut impl FnMut(usize)) {
    match dims {
        [] => visit(first),
        [(extent, stride), rest @ ..] => {
            for index in 0..*extent {
                visit_runs(rest, first + index * stride, visit);
            }
        }
    }
}

fn data_type(tensor: &Node) -> DataType {
    DataType(tensor.integer(Name::CUDNN_ATTR_TENSOR_DATA_TYPE).unwrap_or(-1) as u32)
}

/// Returns the size of a number in bytes, and the bits that are set only in NaNs and infinities. Returns `None` if all
/// values of the type are finite.
fn bits_of_not_finite(data_type: DataType) -> Option<(usize, u64)> {
    Some(match data_type {
        DataType::CUDNN_DATA_DOUBLE | DataType::CUDNN_DATA_COMPLEX_FP64 => (8, 0x7ff << 52),
        DataType::CUDNN_DATA_FLOAT | DataType::CUDNN_DATA_COMPLEX_FP32 => (4, 0x7f80_0000),
        DataType::CUDNN_DATA_HALF => (2, 0x7c00),
        DataType::CUDNN_DATA_BFLOAT16 => (2, 0x7f80),
        DataType::CUDNN_DATA_FP8_E4M3 => (1, 0x7f),
        DataType::CUDNN_DATA_FP8_E5M2 => (1, 0x7c),
        DataType::CUDNN_DATA_FP8_E8M0 => (1, 0xff),
        _ => return None,
    })
}

pub(super) fn are_finite(tensor: &Node, bytes: &[u8]) -> bool {
    let Some((size, mask)) = bits_of_not_finite(data_type(tensor)) else { return true };
    let mut are_finite = true;
    visit_elements(tensor, bytes, &mut |run| {
        are_finite = are_finite
            && run.chunks_exact(size).all(|number| {
                let bits = number.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                bits & mask != mask
            });
    });
    are_finite
}

pub(super) fn hash(tensor: &Node, bytes: &[u8], hasher: &mut impl Hasher) {
    visit_elements(tensor, bytes, &mut |run| hasher.write(run));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::DefaultHasher;

    fn tensor(data_type: DataType, extents: &[i64], strides: &[i64]) -> Node {
        let json = serde_json::json!({
            "kind": "TENSOR", "DATA_TYPE:1": data_type.0, "DIMENSIONS:3": extents, "STRIDES:3": strides
        });
        serde_json::from_value(json).unwrap()
    }

    fn visited(tensor: &Node, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut runs = Vec::new();
        visit_elements(tensor, bytes, &mut |run| runs.push(run.to_vec()));
        runs
    }

    #[test]
    fn bytes_between_elements_are_left_out() {
        let bytes: Vec<u8> = (0..32).collect();
        let int8 = DataType::CUDNN_DATA_INT8;
        assert_eq!(visited(&tensor(int8, &[2, 3], &[3, 1]), &bytes[..6]), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(visited(&tensor(int8, &[2, 3], &[1, 2]), &bytes[..6]), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(visited(&tensor(int8, &[2, 3], &[4, 1]), &bytes[..7]), [[0, 1, 2], [4, 5, 6]]);
        assert_eq!(visited(&tensor(int8, &[2, 2], &[0, 3]), &bytes[..4]), [[0], [3]]);
        let half = tensor(DataType::CUDNN_DATA_HALF, &[2, 1, 2], &[8, 4, 2]);
        assert_eq!(visited(&half, &bytes[..22]), [[0, 1], [4, 5], [16, 17], [20, 21]]);
        assert_eq!(visited(&tensor(DataType::CUDNN_DATA_INT4, &[3], &[1]), &bytes[..2]), [[0, 1]]);
        let hash_of = |bytes: &[u8]| {
            let mut hasher = DefaultHasher::new();
            hash(&tensor(int8, &[2, 1], &[2, 1]), bytes, &mut hasher);
            hasher.finish()
        };
        assert_eq!(hash_of(&[1, 2, 3]), hash_of(&[1, 9, 3]));
        assert_ne!(hash_of(&[1, 2, 3]), hash_of(&[1, 2, 4]));
    }

    #[test]
    fn values_that_are_not_finite_are_found_in_all_types() {
        let is_finite = |data_type, bytes: &[u8]| are_finite(&tensor(data_type, &[1], &[1]), bytes);
        let float = |value: f32| is_finite(DataType::CUDNN_DATA_FLOAT, &value.to_le_bytes());
        assert!(float(f32::MAX) && float(-0.0) && float(f32::MIN_POSITIVE));
        assert!(!float(f32::INFINITY) && !float(f32::NEG_INFINITY) && !float(f32::NAN) && !float(-f32::NAN));
        assert!(!is_finite(DataType::CUDNN_DATA_DOUBLE, &f64::NAN.to_le_bytes()));
        assert!(is_finite(DataType::CUDNN_DATA_DOUBLE, &f64::MAX.to_le_bytes()));
        for (data_type, largest, not_finite) in [
            (DataType::CUDNN_DATA_HALF, 0x7bff_u16, 0x7c00_u16),
            (DataType::CUDNN_DATA_BFLOAT16, 0x7f7f, 0xff80),
            (DataType::CUDNN_DATA_FP8_E4M3, 0x7e, 0xff),
            (DataType::CUDNN_DATA_FP8_E5M2, 0x7b, 0xfd),
            (DataType::CUDNN_DATA_FP8_E8M0, 0xfe, 0xff),
        ] {
            assert!(is_finite(data_type, &largest.to_le_bytes()[..]), "{data_type:?}");
            assert!(!is_finite(data_type, &not_finite.to_le_bytes()[..]), "{data_type:?}");
        }
        assert!(is_finite(DataType::CUDNN_DATA_INT32, &[0xff; 4]));
        let padded = tensor(DataType::CUDNN_DATA_HALF, &[2], &[2]);
        assert!(are_finite(&padded, &[0, 0, 0xff, 0xff, 0, 0]));
        assert!(!are_finite(&padded, &[0, 0, 0, 0, 0xff, 0xff]));
    }
}
