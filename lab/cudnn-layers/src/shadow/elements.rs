//! Copies the attribute elements that the program passed to cuDNN.

use std::sync::Arc;

use cudnn_graph::{Value, element_size};
pub(crate) use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind,
};

/// Maximum size of a stored value. The JSON of a plan has about 100 KB.
pub(super) const MAX_BYTES: usize = 256 * 1024;
pub(super) const MAX_DESCRIPTORS: usize = 4096;

/// Bytes that are cheap to clone. Up to [`INLINE`](Bytes::INLINE) bytes need no allocation.
#[derive(Clone)]
pub(crate) enum Bytes {
    Inline(u8, [u8; Bytes::INLINE]),
    Shared(Arc<[u8]>),
}

impl Bytes {
    /// Room for five 64-bit numbers, which covers nearly all attributes. An attribute then fills one cache line.
    const INLINE: usize = 46;

    #[inline]
    pub(super) fn new(bytes: &[u8]) -> Bytes {
        let mut inline = [0; Bytes::INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(target) => {
                target.copy_from_slice(bytes);
                Bytes::Inline(bytes.len() as u8, inline)
            }
            None => Bytes::Shared(bytes.into()),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

/// Returns elements that are integers, enums, booleans or addresses, or no elements for other types.
pub(crate) fn numbers(ty: Type, bytes: &[u8]) -> Vec<i64> {
    let ty = match ty {
        // The addresses of a variant pack.
        Type::CUDNN_TYPE_VOID_PTR => Type::CUDNN_TYPE_INT64,
        Type::CUDNN_TYPE_FRACTION => return Vec::new(),
        ty => ty,
    };
    let count = element_size(ty).and_then(|size| bytes.len().checked_div(size)).unwrap_or(0);
    match Value::from_bytes(ty, count as i64, bytes) {
        Some(Value::Integers(integers)) => integers,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_numbers() {
        let bytes: Vec<u8> = [3_i64, 2].iter().flat_map(|number| number.to_ne_bytes()).collect();
        for ty in [Type::CUDNN_TYPE_INT64, Type::CUDNN_TYPE_VOID_PTR] {
            assert_eq!(numbers(ty, &bytes), [3, 2], "{ty:?}");
        }
        for ty in [Type::CUDNN_TYPE_FRACTION, Type::CUDNN_TYPE_DOUBLE, Type::CUDNN_TYPE_FLOAT, Type::CUDNN_TYPE_CHAR] {
            assert_eq!(numbers(ty, &bytes), [0_i64; 0], "{ty:?}");
        }
    }
}
