//! Names of numbers in cudnn.h.

use std::ffi::CStr;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as Knob,
};

/// A value of a C enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    /// The name of the enum.
    pub(super) ty: &'static str,
    /// The name of the value, or `None` if these bindings do not know it.
    pub(super) name: Option<&'static str>,
    /// The value.
    pub(super) value: i64,
}

fn constant(ty: &'static str, name: Option<&'static CStr>, value: i64) -> Constant {
    Constant { ty, name: name.and_then(|name| name.to_str().ok()), value }
}

macro_rules! constants {
    ($($function:ident: $ty:ident = $name:literal;)*) => { $(
        pub(super) fn $function(value: $ty) -> Constant {
            constant($name, value.name(), i64::from(value.0))
        }
    )* };
}
constants! {
    kind: Kind = "cudnnBackendDescriptorType_t";
    attribute: Name = "cudnnBackendAttributeName_t";
    attribute_type: Type = "cudnnBackendAttributeType_t";
    knob: Knob = "cudnnBackendKnobType_t";
    mode: Mode = "cudnnBackendHeurMode_t";
}

/// Returns the element of an attribute as a value of a C enum, or `None` if the type is not an enum.
pub(super) fn element(ty: Type, value: i64) -> Option<Constant> {
    macro_rules! of {
        ($($code:ident: $enumeration:ident,)*) => {
            match ty {
                $(Type::$code => {
                    let name = cudnn_loader::$enumeration(value as _).name();
                    Some(constant(stringify!($enumeration), name, value))
                })*
                _ => None,
            }
        };
    }
    of! {
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
}
