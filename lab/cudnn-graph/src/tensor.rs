//! The properties of tensors.

use cudnn_sys::types::{cudnnBackendAttributeName_t as Name, cudnnDataType_t as DataType};

use crate::graph::Node;
use crate::layout::{channels_last, packed};
use crate::names;

impl Node {
    /// Returns the program's id for the tensor.
    pub fn uid(&self) -> Option<i64> {
        self.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID)
    }

    /// Returns the number of the data type in cuDNN's enum.
    pub fn data_type(&self) -> Option<i64> {
        self.integer(Name::CUDNN_ATTR_TENSOR_DATA_TYPE)
    }

    /// Returns the name of the data type, such as `half`.
    pub fn type_name(&self) -> String {
        self.data_type().map_or_else(|| "unknown type".to_owned(), names::data_type)
    }

    /// Returns the extent of each dimension.
    pub fn extents(&self) -> &[i64] {
        self.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS)
    }

    /// Returns the stride of each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        self.integers(Name::CUDNN_ATTR_TENSOR_STRIDES)
    }

    /// Returns the alignment in bytes that the program promises.
    pub fn alignment(&self) -> Option<i64> {
        self.integer(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
    }

    /// Returns whether this is a tensor of a scalar in host memory.
    pub fn is_by_value(&self) -> bool {
        self.integer(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE).is_some_and(|is| is != 0)
    }

    /// Returns whether the tensor only connects two operations.
    pub fn is_virtual(&self) -> bool {
        self.integer(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL).is_some_and(|is| is != 0)
    }

    /// Returns whether the elements are vectors, so that the dimensions have another meaning.
    pub fn is_vectorized(&self) -> bool {
        self.integer(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).is_some_and(|count| count != 1)
    }

    pub(crate) fn is_scalar(&self) -> bool {
        self.extents().iter().all(|extent| *extent == 1)
    }

    /// Returns whether only the second or the last dimension is larger than 1.
    pub(crate) fn is_per_channel(&self) -> bool {
        let extents = self.extents();
        let mut long = extents.iter().enumerate().filter(|(_, extent)| **extent != 1).map(|(index, _)| index);
        let only = long.next().filter(|_| long.next().is_none());
        only.is_some_and(|index| index == 1 || index + 1 == extents.len())
    }

    /// Returns whether an image or filter is channels-last, or `None` if this is ambiguous or meaningless.
    pub fn is_channels_last(&self) -> Option<bool> {
        let (extents, strides) = (self.extents(), self.strides());
        if !(4..=5).contains(&extents.len()) || strides.len() != extents.len() {
            return None;
        }
        // Dimensions with one element may have any stride.
        let equals = |expected: Vec<i64>| {
            extents.iter().zip(strides).zip(expected).all(|((extent, own), expected)| *extent == 1 || *own == expected)
        };
        match (equals(channels_last(extents)), equals(packed(extents))) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// Returns the number of bytes between the first and the last element, or `None` if strides or type are unknown.
    pub fn span(&self) -> Option<u64> {
        if self.value(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).is_some() {
            return None;
        }
        let extents = self.extents();
        let strides = self.strides();
        if extents.len() != strides.len() {
            return None;
        }
        let mut last: u64 = 0;
        for (extent, stride) in extents.iter().zip(strides) {
            let steps = u64::try_from(extent.checked_sub(1)?).ok()?;
            last = last.checked_add(steps.checked_mul(u64::try_from(*stride).ok()?)?)?;
        }
        let vector = self.integer(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).unwrap_or(1).max(1);
        let elements = last.checked_add(1)?.checked_mul(vector.cast_unsigned())?;
        let bits = element_bits(DataType(self.data_type()? as u32))?;
        Some(elements.checked_mul(bits)?.div_ceil(8))
    }
}

/// Returns the size of an element in bits, or `None` for unknown types. A vectorized type such as `CUDNN_DATA_INT8x4`
/// is one element, and `CUDNN_DATA_BOOLEAN` needs one bit.
pub fn element_bits(data_type: DataType) -> Option<u64> {
    Some(match data_type {
        DataType::CUDNN_DATA_DOUBLE | DataType::CUDNN_DATA_INT64 | DataType::CUDNN_DATA_COMPLEX_FP32 => 64,
        DataType::CUDNN_DATA_FLOAT
        | DataType::CUDNN_DATA_INT32
        | DataType::CUDNN_DATA_UINT32
        | DataType::CUDNN_DATA_INT8x4
        | DataType::CUDNN_DATA_UINT8x4
        | DataType::CUDNN_DATA_FAST_FLOAT_FOR_FP8 => 32,
        DataType::CUDNN_DATA_HALF | DataType::CUDNN_DATA_BFLOAT16 => 16,
        DataType::CUDNN_DATA_INT8
        | DataType::CUDNN_DATA_UINT8
        | DataType::CUDNN_DATA_BYTE_BOOLEAN
        | DataType::CUDNN_DATA_FP8_E4M3
        | DataType::CUDNN_DATA_FP8_E5M2
        | DataType::CUDNN_DATA_FP8_E5M3
        | DataType::CUDNN_DATA_FP8_E8M0 => 8,
        DataType::CUDNN_DATA_COMPLEX_FP64 => 128,
        DataType::CUDNN_DATA_INT8x32 => 256,
        DataType::CUDNN_DATA_BOOLEAN => 1,
        DataType::CUDNN_DATA_INT4 | DataType::CUDNN_DATA_UINT4 | DataType::CUDNN_DATA_FP4_E2M1 => 4,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn the_size_of_each_type_is_known() {
        for (data_type, name) in DataType::ENUMERATORS {
            assert!(element_bits(*data_type).is_some(), "{name:?}");
        }
        assert_eq!(element_bits(DataType(9999)), None);
    }

    #[test]
    fn the_span_follows_the_strides() {
        let tensor = |extents: &[i64], strides: &[i64], ty: i64| {
            let mut json = serde_json::json!([{"kind": "TENSOR"}]);
            json[0]["TENSOR_DATA_TYPE:1"] = ty.into();
            json[0]["TENSOR_DIMENSIONS:3"] = extents.into();
            json[0]["TENSOR_STRIDES:3"] = strides.into();
            let graph: Graph = serde_json::from_value(json).unwrap();
            graph.root().unwrap().span()
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
