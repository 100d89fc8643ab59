//! Copies the attribute elements that the program passed to cuDNN.

use std::sync::Arc;

use cudnn_graph::element_size;
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

/// Returns elements that are integers, enums or booleans, or no elements for other types.
pub(crate) fn numbers(ty: Type, bytes: &[u8]) -> Vec<i64> {
    match (ty, element_size(ty)) {
        (Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_DOUBLE | Type::CUDNN_TYPE_FRACTION, _) => Vec::new(),
        (_, Some(8)) => chunks(bytes, i64::from_ne_bytes),
        (_, Some(4)) => chunks(bytes, |number| i64::from(i32::from_ne_bytes(number))),
        (_, Some(1)) => bytes.iter().map(|byte| i64::from(*byte)).collect(),
        _ => Vec::new(),
    }
}

fn chunks<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> i64) -> Vec<i64> {
    bytes.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok().map(&number)).collect()
}
