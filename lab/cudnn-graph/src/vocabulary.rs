//! Lists the names that labels and rules use.

use std::collections::BTreeSet;

use cudnn_sys::types::cudnnBackendDescriptorType_t as Kind;

use crate::names::{DATA_TYPES, KNOBS, NORM_MODES, NUMERICAL_NOTES, POINTWISE_MODES, REDUCTIONS, RESAMPLE_MODES};
use crate::operation::{NAMED_BY_MODE, name_of_kind};

/// Returns the names of all operations, such as `conv_fwd`, `matmul` and `relu`.
pub fn operations() -> BTreeSet<String> {
    let both = |names: BTreeSet<String>| names.into_iter().flat_map(|name| [format!("{name}_bwd"), name]);
    let reductions = REDUCTIONS.all_short().into_iter().map(|name| format!("reduce_{name}"));
    let kinds = Kind::ENUMERATORS.iter().filter(|(kind, _)| !NAMED_BY_MODE.contains(kind));
    let kinds = kinds.filter_map(|(kind, _)| name_of_kind(*kind));
    let names = ["bias", "scale"].map(str::to_owned).into_iter().chain(POINTWISE_MODES.all_short()).chain(reductions);
    names.chain(both(NORM_MODES.all_short())).chain(both(RESAMPLE_MODES.all_short())).chain(kinds).collect()
}

/// Returns the names of all knobs, such as `TILE_SIZE`.
pub fn knobs() -> BTreeSet<String> {
    KNOBS.all_short().into_iter().map(|name| name.to_ascii_uppercase()).collect()
}

/// Returns the names of all data types, such as `half`.
pub fn data_types() -> BTreeSet<String> {
    DATA_TYPES.all_short()
}

/// Returns the names of all notes about an engine's arithmetic, such as `tensor_core`.
pub fn numerical_notes() -> BTreeSet<String> {
    let mut notes = NUMERICAL_NOTES.all_short();
    notes.remove("type_count");
    notes
}
