//! Lists the short names of operations, knobs and data types that labels use.

use std::collections::BTreeSet;

use cudnn_sys::types::{cudnnBackendBehaviorNote_t, cudnnBackendNumericalNote_t};

use super::elements::Kind;
use super::label::names;

/// More values than any of cuDNN's enums has.
const MAX_VALUES: i64 = 512;

/// Returns the names of all operations, such as `conv_fwd`, `matmul` and `relu`.
pub(crate) fn operations() -> BTreeSet<String> {
    let modes = known(names::pointwise_mode, "pointwise ");
    let reductions = known(names::reduction, "operator ").map(|name| format!("reduce_{name}"));
    let both = |name: String| [format!("{name}_bwd"), name];
    let norms = known(names::norm_mode, "norm ").flat_map(both);
    let resamples = known(names::resample_mode, "resample ").flat_map(both);
    let kinds = (0..MAX_VALUES).filter_map(|kind| {
        let name = names::short(Kind(kind as u32).name(), "CUDNN_BACKEND_OPERATION_", "_DESCRIPTOR")?;
        (!name.starts_with("cudnn_backend_") && !RENAMED.contains(&name.as_str())).then_some(name)
    });
    let special = ["conv_fwd", "conv_bwd_data", "conv_bwd_filter", "bias", "scale"].map(str::to_owned);
    special.into_iter().chain(modes).chain(reductions).chain(norms).chain(resamples).chain(kinds).collect()
}

/// Kinds of operations that labels name by their mode.
const RENAMED: [&str; 9] = [
    "convolution_forward",
    "convolution_backward_data",
    "convolution_backward_filter",
    "pointwise",
    "reduction",
    "norm_forward",
    "norm_backward",
    "resample_fwd",
    "resample_bwd",
];

/// Returns the names of all knobs, such as `TILE_SIZE`.
pub(crate) fn knobs() -> BTreeSet<String> {
    known(names::knob, "KNOB_").collect()
}

/// Returns the names of all data types, such as `half`.
pub(crate) fn data_types() -> BTreeSet<String> {
    known(names::data_type, "type ").collect()
}

/// Returns the names of all notes about an engine's arithmetic, such as `tensor_core`.
pub(crate) fn numerical_notes() -> BTreeSet<String> {
    known(names::numerical_note, "note ").filter(|name| name != "type_count").collect()
}

/// Returns the name of a note.
pub(crate) fn numerical_note(note: cudnnBackendNumericalNote_t) -> String {
    names::numerical_note(i64::from(note.0))
}

/// Returns the name of a note about an engine's behavior.
pub(crate) fn behavior_note(note: cudnnBackendBehaviorNote_t) -> String {
    names::behavior_note(i64::from(note.0))
}

/// Returns the name of a heuristics mode.
pub(crate) fn heuristics_mode(mode: i64) -> String {
    names::heuristics_mode(mode)
}

/// Returns the name of a knob.
pub(crate) fn knob(knob: u32) -> String {
    names::knob(i64::from(knob))
}

/// Returns the names that a function returns, without those that begin like the name of an unknown value.
fn known(name: fn(i64) -> String, unknown: &'static str) -> impl Iterator<Item = String> {
    (0..MAX_VALUES).map(name).filter(move |name| !name.starts_with(unknown))
}
