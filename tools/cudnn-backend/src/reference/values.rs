//! Input values for a tensor, and their encoding in its data type.

use super::half;
use crate::cudnn::cudnnDataType_t as DataType;
use crate::tensor::Tensor;

/// Values between -1 and 1 for each element of a tensor, the same in each run, and exact in the tensor's data type.
pub fn noise(tensor: &Tensor) -> Vec<f32> {
    let mut state = (tensor.uid as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = |_| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        match tensor.data_type {
            DataType::CUDNN_DATA_HALF => half::to_float(half::from_float(value)),
            _ => value,
        }
    };
    (0..tensor.element_count()).map(next).collect()
}

/// The bytes of these values in the tensor's data type, half or float.
pub fn encode(tensor: &Tensor, values: &[f32]) -> Vec<u8> {
    match tensor.data_type {
        DataType::CUDNN_DATA_HALF => values.iter().flat_map(|value| half::from_float(*value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// The values of these bytes in the tensor's data type, half or float.
pub fn decode(tensor: &Tensor, bytes: &[u8]) -> Vec<f32> {
    match tensor.data_type {
        DataType::CUDNN_DATA_HALF => {
            bytes.as_chunks().0.iter().map(|two| half::to_float(u16::from_le_bytes(*two))).collect()
        }
        _ => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}
