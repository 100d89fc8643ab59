//! Copies of the attribute elements that the program passed to cuDNN.

use std::sync::Arc;

pub(crate) use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptor_t as Raw,
    cudnnBackendDescriptorType_t as Kind,
};

/// Maximum size of a stored value. The JSON of a plan has about 100 KB.
pub(super) const MAX_BYTES: usize = 256 * 1024;
/// Maximum number of descriptors that are stored.
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

    /// Replaces the bytes, and reuses the memory if possible.
    #[inline]
    pub(super) fn assign(&mut self, bytes: &[u8]) {
        let target = match self {
            Bytes::Inline(len, inline) if bytes.len() <= inline.len() => {
                *len = bytes.len() as u8;
                inline.get_mut(..bytes.len())
            }
            Bytes::Shared(shared) if shared.len() == bytes.len() => Arc::get_mut(shared),
            _ => None,
        };
        match target {
            Some(target) => target.copy_from_slice(bytes),
            None => *self = Bytes::new(bytes),
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

/// Returns the size of an element, or `None` if the type is newer than these bindings.
#[inline]
pub(crate) fn element_size(ty: Type) -> Option<usize> {
    Some(match ty {
        Type::CUDNN_TYPE_HANDLE | Type::CUDNN_TYPE_VOID_PTR | Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => size_of::<usize>(),
        Type::CUDNN_TYPE_BOOLEAN | Type::CUDNN_TYPE_CHAR => 1,
        Type::CUDNN_TYPE_INT64 | Type::CUDNN_TYPE_DOUBLE => 8,
        Type::CUDNN_TYPE_FLOAT | Type::CUDNN_TYPE_INT32 => 4,
        Type::CUDNN_TYPE_FRACTION => size_of::<cudnn_sys::types::cudnnFraction_t>(),
        Type::CUDNN_TYPE_DATA_TYPE
        | Type::CUDNN_TYPE_CONVOLUTION_MODE
        | Type::CUDNN_TYPE_HEUR_MODE
        | Type::CUDNN_TYPE_KNOB_TYPE
        | Type::CUDNN_TYPE_NAN_PROPOGATION
        | Type::CUDNN_TYPE_NUMERICAL_NOTE
        | Type::CUDNN_TYPE_LAYOUT_TYPE
        | Type::CUDNN_TYPE_ATTRIB_NAME
        | Type::CUDNN_TYPE_POINTWISE_MODE
        | Type::CUDNN_TYPE_GENSTATS_MODE
        | Type::CUDNN_TYPE_BN_FINALIZE_STATS_MODE
        | Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE
        | Type::CUDNN_TYPE_BEHAVIOR_NOTE
        | Type::CUDNN_TYPE_TENSOR_REORDERING_MODE
        | Type::CUDNN_TYPE_RESAMPLE_MODE
        | Type::CUDNN_TYPE_PADDING_MODE
        | Type::CUDNN_TYPE_SIGNAL_MODE
        | Type::CUDNN_TYPE_NORM_MODE
        | Type::CUDNN_TYPE_NORM_FWD_PHASE
        | Type::CUDNN_TYPE_RNG_DISTRIBUTION
        | Type::CUDNN_TYPE_MOE_GROUPED_MATMUL_MODE
        | Type::CUDNN_TYPE_RESHAPE_MODE
        | Type::CUDNN_TYPE_OPERATIONGRAPH_MODE
        | Type::CUDNN_TYPE_CUDA_GRAPH_RETENTION => size_of::<i32>(),
        _ => return None,
    })
}

/// Returns elements that are integers, enums or booleans. Empty for other types.
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
