//! The elements of an attribute, as bytes in cuDNN's layout and as JSON.

use std::ffi::CStr;

use cudnn_sys::types::{self, cudnnBackendAttributeType_t as Type, cudnnFraction_t};
use serde_json::{Number, Value as Json, json};

/// The elements of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Integers, enums, booleans, and the numerators and denominators of fractions.
    Integers(Vec<i64>),
    /// Floats and doubles, with all bits of NaNs.
    Floats(Vec<f64>),
    /// A text up to the first NUL, and the number of elements that the program passed.
    Text(Vec<u8>, i64),
    /// Indices of earlier descriptors in the graph.
    Nodes(Vec<usize>),
    /// A number of handles, without their addresses.
    Handles(usize),
}

/// Returns the size of an element in bytes, or `None` if the type is newer than these bindings.
#[inline]
pub fn element_size(ty: Type) -> Option<usize> {
    Some(match ty {
        Type::CUDNN_TYPE_HANDLE | Type::CUDNN_TYPE_VOID_PTR | Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => size_of::<usize>(),
        Type::CUDNN_TYPE_BOOLEAN | Type::CUDNN_TYPE_CHAR => 1,
        Type::CUDNN_TYPE_INT64 | Type::CUDNN_TYPE_DOUBLE => 8,
        Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_INT32 => 4,
        Type::CUDNN_TYPE_FRACTION => size_of::<cudnnFraction_t>(),
        ty if is_enumeration(ty) => size_of::<i32>(),
        _ => return None,
    })
}

macro_rules! enumerations {
    ($($code:ident: $enumeration:ident,)*) => {
        fn is_enumeration(ty: Type) -> bool {
            matches!(ty, $(Type::$code)|*)
        }

        /// Returns the names of a C enum and of this value if known, or `None` if the type is not an enum.
        pub fn enumerator(ty: Type, value: i64) -> Option<(&'static str, Option<&'static CStr>)> {
            match ty {
                $(Type::$code => Some((stringify!($enumeration), types::$enumeration(value as _).name())),)*
                _ => None,
            }
        }
    };
}
enumerations! {
    CUDNN_TYPE_DATA_TYPE: cudnnDataType_t,
    CUDNN_TYPE_CONVOLUTION_MODE: cudnnConvolutionMode_t,
    CUDNN_TYPE_HEUR_MODE: cudnnBackendHeurMode_t,
    CUDNN_TYPE_KNOB_TYPE: cudnnBackendKnobType_t,
    CUDNN_TYPE_NAN_PROPOGATION: cudnnNanPropagation_t,
    CUDNN_TYPE_NUMERICAL_NOTE: cudnnBackendNumericalNote_t,
    CUDNN_TYPE_LAYOUT_TYPE: cudnnBackendLayoutType_t,
    CUDNN_TYPE_ATTRIB_NAME: cudnnBackendAttributeName_t,
    CUDNN_TYPE_POINTWISE_MODE: cudnnPointwiseMode_t,
    CUDNN_TYPE_GENSTATS_MODE: cudnnGenStatsMode_t,
    CUDNN_TYPE_BN_FINALIZE_STATS_MODE: cudnnBnFinalizeStatsMode_t,
    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE: cudnnReduceTensorOp_t,
    CUDNN_TYPE_BEHAVIOR_NOTE: cudnnBackendBehaviorNote_t,
    CUDNN_TYPE_TENSOR_REORDERING_MODE: cudnnBackendTensorReordering_t,
    CUDNN_TYPE_RESAMPLE_MODE: cudnnResampleMode_t,
    CUDNN_TYPE_PADDING_MODE: cudnnPaddingMode_t,
    CUDNN_TYPE_SIGNAL_MODE: cudnnSignalMode_t,
    CUDNN_TYPE_NORM_MODE: cudnnBackendNormMode_t,
    CUDNN_TYPE_NORM_FWD_PHASE: cudnnBackendNormFwdPhase_t,
    CUDNN_TYPE_RNG_DISTRIBUTION: cudnnRngDistribution_t,
    CUDNN_TYPE_MOE_GROUPED_MATMUL_MODE: cudnnMoeGroupedMatmulMode_t,
    CUDNN_TYPE_RESHAPE_MODE: cudnnBackendReshapeMode_t,
    CUDNN_TYPE_OPERATIONGRAPH_MODE: cudnnBackendOperationGraphMode_t,
    CUDNN_TYPE_CUDA_GRAPH_RETENTION: cudnnCudaGraphRetention_t,
}

fn integers_in(ty: Type) -> usize {
    if ty == Type::CUDNN_TYPE_FRACTION { 2 } else { 1 }
}

impl Value {
    /// Returns elements, or `None` for descriptors, handles, pointers, unknown types and incomplete elements.
    pub fn from_bytes(ty: Type, count: i64, bytes: &[u8]) -> Option<Self> {
        let size = element_size(ty)?;
        let text = || Value::Text(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(), count);
        if ty != Type::CUDNN_TYPE_CHAR && usize::try_from(count).ok()?.checked_mul(size)? != bytes.len() {
            return None;
        }
        Some(match ty {
            Type::CUDNN_TYPE_HANDLE | Type::CUDNN_TYPE_VOID_PTR | Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => return None,
            Type::CUDNN_TYPE_CHAR => text(),
            Type::CUDNN_TYPE_FLOAT => Value::Floats(chunks(bytes, |chunk| widened(f32::from_ne_bytes(chunk)))),
            Type::CUDNN_TYPE_DOUBLE => Value::Floats(chunks(bytes, f64::from_ne_bytes)),
            Type::CUDNN_TYPE_INT64 | Type::CUDNN_TYPE_FRACTION => Value::Integers(chunks(bytes, i64::from_ne_bytes)),
            Type::CUDNN_TYPE_BOOLEAN => Value::Integers(bytes.iter().map(|byte| i64::from(*byte)).collect()),
            _ => Value::Integers(chunks(bytes, |chunk| i64::from(i32::from_ne_bytes(chunk)))),
        })
    }

    /// Returns the indices of descriptors, or an empty list for other elements.
    pub fn places(&self) -> &[usize] {
        if let Value::Nodes(places) = self { places } else { &[] }
    }

    /// Returns the number of elements, as passed to cuDNN.
    pub fn count(&self, ty: Type) -> i64 {
        match self {
            Value::Integers(integers) => (integers.len() / integers_in(ty)) as i64,
            Value::Floats(floats) => floats.len() as i64,
            Value::Text(_, count) => *count,
            Value::Nodes(nodes) => nodes.len() as i64,
            Value::Handles(count) => *count as i64,
        }
    }

    /// Returns the elements in cuDNN's layout, with texts padded by NULs. Descriptors and handles are empty.
    pub fn to_bytes(&self, ty: Type) -> Vec<u8> {
        match self {
            Value::Integers(integers) => {
                let size = element_size(ty).unwrap_or(0) / integers_in(ty);
                integers.iter().flat_map(|integer| integer.to_le_bytes().into_iter().take(size)).collect()
            }
            Value::Floats(floats) if ty == Type::CUDNN_TYPE_FLOAT => {
                floats.iter().flat_map(|float| narrowed(*float).to_ne_bytes()).collect()
            }
            Value::Floats(floats) => floats.iter().flat_map(|float| float.to_ne_bytes()).collect(),
            Value::Text(text, count) => {
                let mut text = text.clone();
                text.resize(text.len().max(usize::try_from(*count).unwrap_or(0)), 0);
                text
            }
            Value::Nodes(_) | Value::Handles(_) => Vec::new(),
        }
    }

    /// Returns a single element, or an array.
    pub(crate) fn to_json(&self) -> Json {
        let of = |mut list: Vec<Json>| match list.len() {
            1 => list.pop().unwrap_or_default(),
            _ => Json::Array(list),
        };
        match self {
            Value::Integers(integers) => of(integers.iter().map(|integer| json!(integer)).collect()),
            Value::Floats(floats) => of(floats.iter().map(|float| float_to_json(*float)).collect()),
            Value::Nodes(nodes) => of(nodes.iter().map(|node| json!(node)).collect()),
            Value::Handles(count) => json!(count),
            Value::Text(text, count) => match String::from_utf8(text.clone()) {
                Ok(text) if text.len() as i64 == *count => json!(text),
                Ok(text) => json!([text, count]),
                Err(_) => json!([text, count]),
            },
        }
    }

    /// Returns `None` if the JSON does not fit the type.
    pub(crate) fn from_json(ty: Type, json: &Json) -> Option<Self> {
        let single = std::slice::from_ref(json);
        let list = json.as_array().map_or(single, Vec::as_slice);
        element_size(ty)?;
        Some(match ty {
            Type::CUDNN_TYPE_VOID_PTR => return None,
            Type::CUDNN_TYPE_HANDLE => Value::Handles(usize::try_from(json.as_u64()?).ok()?),
            Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => {
                let index = |json: &Json| usize::try_from(json.as_u64()?).ok();
                Value::Nodes(list.iter().map(index).collect::<Option<_>>()?)
            }
            Type::CUDNN_TYPE_CHAR => match (json, list) {
                (Json::String(text), _) => Value::Text(text.as_bytes().to_vec(), text.len() as i64),
                (_, [Json::String(text), count]) => Value::Text(text.as_bytes().to_vec(), text_count(count)?),
                (_, [Json::Array(bytes), count]) => {
                    let byte = |json: &Json| u8::try_from(json.as_u64()?).ok();
                    Value::Text(bytes.iter().map(byte).collect::<Option<_>>()?, text_count(count)?)
                }
                _ => return None,
            },
            Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_DOUBLE => {
                Value::Floats(list.iter().map(float_from_json).collect::<Option<_>>()?)
            }
            _ => {
                let integers: Vec<i64> = list.iter().map(Json::as_i64).collect::<Option<_>>()?;
                let is_whole = integers.len().is_multiple_of(integers_in(ty));
                let fits = |integer: &i64| match element_size(ty) {
                    Some(4) => i32::try_from(*integer).is_ok(),
                    Some(1) => u8::try_from(*integer).is_ok(),
                    _ => true,
                };
                if !is_whole || !integers.iter().all(fits) {
                    return None;
                }
                Value::Integers(integers)
            }
        })
    }
}

/// Maximum size of a text, which `to_bytes` allocates.
const MAX_TEXT: i64 = 1 << 20;

fn text_count(json: &Json) -> Option<i64> {
    json.as_i64().filter(|count| (0..=MAX_TEXT).contains(count))
}

fn chunks<T, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok().map(&number)).collect()
}

/// Like a cast, but retains all bits of NaNs, including signaling ones.
fn widened(float: f32) -> f64 {
    if !float.is_nan() {
        return f64::from(float);
    }
    let bits = u64::from(float.to_bits());
    f64::from_bits((bits >> 31) << 63 | 0x7ff << 52 | (bits & 0x7f_ffff) << 29)
}

fn narrowed(float: f64) -> f32 {
    if !float.is_nan() {
        return float as f32;
    }
    let bits = float.to_bits();
    f32::from_bits(((bits >> 63) as u32) << 31 | 0xff << 23 | ((bits >> 29) as u32 & 0x7f_ffff))
}

/// A finite number, or its bits as hexadecimal text.
fn float_to_json(float: f64) -> Json {
    Number::from_f64(float).map_or_else(|| json!(format!("{:016x}", float.to_bits())), Json::Number)
}

fn float_from_json(json: &Json) -> Option<f64> {
    match json {
        Json::String(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        other => other.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives() {
        for bits in
            [0, 1, 0x8000_0000, 0x3dcc_cccd, f32::MAX.to_bits(), 0x7f80_0000, 0xff80_0000, 0x7f80_0001, 0xffc0_1234_u32]
        {
            let bytes = bits.to_ne_bytes();
            let value = Value::from_bytes(Type::CUDNN_TYPE_FLOAT, 1, &bytes).unwrap();
            let text = serde_json::to_string(&value.to_json()).unwrap();
            let read = Value::from_json(Type::CUDNN_TYPE_FLOAT, &serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(read.to_bytes(Type::CUDNN_TYPE_FLOAT), bytes, "{bits:x} {text}");
        }
        for float in [0.1, -0.0, f64::MAX, 5e-324, f64::INFINITY, f64::from_bits(0x7ff0_0000_0000_0001)] {
            let bytes = float.to_ne_bytes();
            let value = Value::from_bytes(Type::CUDNN_TYPE_DOUBLE, 1, &bytes).unwrap();
            let text = serde_json::to_string(&value.to_json()).unwrap();
            let read = Value::from_json(Type::CUDNN_TYPE_DOUBLE, &serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(read.to_bytes(Type::CUDNN_TYPE_DOUBLE), bytes, "{float} {text}");
        }
    }

    #[test]
    fn the_size_of_each_type_is_known() {
        for (ty, name) in Type::ENUMERATORS {
            assert!(element_size(*ty).is_some(), "{name:?}");
        }
        assert_eq!(element_size(Type(9999)), None);
    }

    #[test]
    fn each_type_has_its_own_layout() {
        let cases: [(Type, i64, &[u8]); 5] = [
            (Type::CUDNN_TYPE_INT64, 2, &[1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
            (Type::CUDNN_TYPE_DATA_TYPE, 1, &[9, 0, 0, 0]),
            (Type::CUDNN_TYPE_BOOLEAN, 1, &[1]),
            (Type::CUDNN_TYPE_FRACTION, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]),
            (Type::CUDNN_TYPE_CHAR, 3, b"abc"),
        ];
        for (ty, count, bytes) in cases {
            let value = Value::from_bytes(ty, count, bytes).unwrap();
            let read = Value::from_json(ty, &value.to_json()).unwrap();
            assert_eq!((&read, read.count(ty), read.to_bytes(ty)), (&value, count, bytes.to_vec()), "{ty:?}");
        }
        assert_eq!(Value::from_bytes(Type::CUDNN_TYPE_VOID_PTR, 1, &[0; 8]), None);
        assert_eq!(Value::from_bytes(Type::CUDNN_TYPE_INT64, 2, &[0; 8]), None);
        assert_eq!(Value::from_bytes(Type(9999), 1, &[0; 8]), None);
    }

    #[test]
    fn texts_keep_their_count() {
        let ty = Type::CUDNN_TYPE_CHAR;
        for (text, count) in [(&b"ab"[..], 3), (b"ab", 2), (b"", 1), (b"\xff", 1)] {
            let value = Value::from_bytes(ty, count, text).unwrap();
            let read = Value::from_json(ty, &value.to_json()).unwrap();
            assert_eq!((&read, read.count(ty)), (&value, count));
            assert_eq!(read.to_bytes(ty).len(), count as usize);
        }
        assert_eq!(Value::from_json(ty, &json!(["a", 1_i64 << 40])), None);
    }
}
