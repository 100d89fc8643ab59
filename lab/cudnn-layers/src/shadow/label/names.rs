//! Shortens cuDNN's names by removing common prefixes and suffixes.

use std::ffi::CStr;

use cudnn_sys::types::{
    cudnnBackendBehaviorNote_t, cudnnBackendHeurMode_t, cudnnBackendKnobType_t, cudnnBackendNormMode_t,
    cudnnBackendNumericalNote_t, cudnnDataType_t, cudnnPointwiseMode_t, cudnnReduceTensorOp_t, cudnnResampleMode_t,
};

/// Returns a name in lower case, without the prefix and suffix.
pub(in crate::shadow) fn short(name: Option<&CStr>, prefix: &str, suffix: &str) -> Option<String> {
    let name = name?.to_str().ok()?;
    let name = name.strip_prefix(prefix).unwrap_or(name);
    Some(name.strip_suffix(suffix).unwrap_or(name).to_ascii_lowercase())
}

/// Defines functions that return a name as in [`short`]. For values that are newer than these bindings, they return the
/// kind and the number.
macro_rules! named {
    ($($(#[$doc:meta])* $function:ident: $type:ident($repr:ty), $prefix:literal, $suffix:literal, $what:literal;)*) => { $(
        $(#[$doc])*
        pub(crate) fn $function(value: i64) -> String {
            short($type(value as $repr).name(), $prefix, $suffix).unwrap_or_else(|| format!(concat!($what, " {}"), value))
        }
    )* };
}
named! {
    /// `half`
    data_type: cudnnDataType_t(u32), "CUDNN_DATA_", "", "type";
    /// `relu`, `relu_bwd`
    pointwise_mode: cudnnPointwiseMode_t(u32), "CUDNN_POINTWISE_", "_FWD", "pointwise";
    /// `max`
    reduction: cudnnReduceTensorOp_t(u32), "CUDNN_REDUCE_TENSOR_", "", "operator";
    /// `layer_norm`
    norm_mode: cudnnBackendNormMode_t(u32), "CUDNN_", "", "norm";
    /// `maxpool`
    resample_mode: cudnnResampleMode_t(u32), "CUDNN_RESAMPLE_", "", "resample";
    /// `tensor_core`
    numerical_note: cudnnBackendNumericalNote_t(u32), "CUDNN_NUMERICAL_NOTE_", "", "note";
    /// `runtime_compilation`
    behavior_note: cudnnBackendBehaviorNote_t(u32), "CUDNN_BEHAVIOR_NOTE_", "", "note";
    /// `mode_a`
    heuristics_mode: cudnnBackendHeurMode_t(u32), "CUDNN_HEUR_", "", "mode";
}

/// Returns a knob's name such as `TILE_SIZE`, in capitals as in most engine configurations.
pub(in crate::shadow) fn knob(value: i64) -> String {
    let name = short(cudnnBackendKnobType_t(value as u32).name(), "CUDNN_KNOB_TYPE_", "");
    name.map_or_else(|| format!("KNOB_{value}"), |name| name.to_ascii_uppercase())
}
