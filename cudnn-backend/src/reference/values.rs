//! Provides input values for a tensor, encoded in the tensor's data type.

use crate::cudnn::cudnnDataType_t as DataType;
use half::f16;

use crate::tensor::Tensor;

/// Returns reproducible values between -1 and 1 for all elements of a tensor, which are exact in its data type.
pub fn noise(tensor: &Tensor) -> Vec<f32> {
    let mut state = (tensor.uid as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = |_| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        match tensor.data_type {
            DataType::CUDNN_DATA_HALF => f16::from_f32(value).to_f32(),
            _ => value,
        }
    };
    (0..tensor.element_count()).map(next).collect()
}

/// Encodes values in the data type of the tensor, which is half or float.
pub fn encode(tensor: &Tensor, values: &[f32]) -> Vec<u8> {
    match tensor.data_type {
        DataType::CUDNN_DATA_HALF => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// Decodes values from the data type of the tensor, which is half or float.
pub fn decode(tensor: &Tensor, bytes: &[u8]) -> Vec<f32> {
    match tensor.data_type {
        DataType::CUDNN_DATA_HALF => bytes.as_chunks().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect(),
        _ => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}
