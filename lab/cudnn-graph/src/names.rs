//! Converts cuDNN's numbers to names without the common prefixes, and back.

use std::collections::BTreeSet;
use std::ffi::CStr;

use cudnn_sys::types::{
    cudnnBackendAttributeName_t, cudnnBackendBehaviorNote_t, cudnnBackendDescriptorType_t, cudnnBackendHeurMode_t,
    cudnnBackendKnobType_t, cudnnBackendNormMode_t, cudnnBackendNumericalNote_t, cudnnDataType_t, cudnnPointwiseMode_t,
    cudnnReduceTensorOp_t, cudnnResampleMode_t, cudnnStatus_t,
};

/// The names of an enum, without the common prefix and suffix.
pub struct Names<T: 'static> {
    /// Names and numbers, in which a number can occur twice.
    all: &'static [(T, &'static CStr)],
    prefix: &'static str,
    suffix: &'static str,
}

impl<T: Copy + Into<u32>> Names<T> {
    /// Returns the name of a number, such as `TENSOR_DIMENSIONS`. Unknown numbers are written as `#1234`.
    pub fn name(&self, number: u32) -> String {
        self.known(number).map_or_else(|| format!("#{number}"), str::to_owned)
    }

    /// Returns the number of a name.
    pub fn number(&self, name: &str) -> Option<u32> {
        if let Some(number) = name.strip_prefix('#') {
            return number.parse().ok();
        }
        self.all.iter().find(|(_, known)| self.shortened(known) == name.as_bytes()).map(|(value, _)| (*value).into())
    }

    /// Returns the name in lower case, as in labels. Unknown numbers follow `what`, as in `type 99`.
    pub fn short(&self, number: i64, what: &str) -> String {
        self.known(number as u32).map_or_else(|| format!("{what} {number}"), str::to_ascii_lowercase)
    }

    pub(crate) fn all_short(&self) -> BTreeSet<String> {
        self.all.iter().filter_map(|(value, _)| self.known((*value).into())).map(str::to_ascii_lowercase).collect()
    }

    pub(crate) fn known(&self, number: u32) -> Option<&'static str> {
        let (_, name) = self.all.iter().find(|(value, _)| (*value).into() == number)?;
        std::str::from_utf8(self.shortened(name)).ok()
    }

    /// Does not compare the prefix, because readers of captures call this for hundreds of names of each attribute.
    fn shortened(&self, name: &'static CStr) -> &'static [u8] {
        let name = name.to_bytes().get(self.prefix.len()..).unwrap_or_default();
        match self.suffix {
            // Comparing no bytes is slow, because glibc reads a vector of masked bytes at an invalid address.
            "" => name,
            suffix => name.strip_suffix(suffix.as_bytes()).unwrap_or(name),
        }
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $names:ident: $type:ident, $prefix:literal, $suffix:literal;)*) => { $(
        $(#[$doc])*
        pub static $names: Names<$type> = Names { all: $type::ENUMERATORS, prefix: $prefix, suffix: $suffix };
    )* };
}
names! {
    /// Kinds of descriptors, such as `TENSOR`.
    KINDS: cudnnBackendDescriptorType_t, "CUDNN_BACKEND_", "_DESCRIPTOR";
    /// Attributes, such as `TENSOR_DIMENSIONS`.
    ATTRIBUTES: cudnnBackendAttributeName_t, "CUDNN_ATTR_", "";
    /// Knobs, such as `TILE_SIZE`.
    KNOBS: cudnnBackendKnobType_t, "CUDNN_KNOB_TYPE_", "";
    /// Statuses, such as `NOT_SUPPORTED`.
    STATUSES: cudnnStatus_t, "CUDNN_STATUS_", "";
    /// Data types, such as `HALF`.
    DATA_TYPES: cudnnDataType_t, "CUDNN_DATA_", "";
    /// Pointwise functions, such as `RELU` and `RELU_BWD`.
    POINTWISE_MODES: cudnnPointwiseMode_t, "CUDNN_POINTWISE_", "_FWD";
    /// Operators of reductions, such as `MAX`.
    REDUCTIONS: cudnnReduceTensorOp_t, "CUDNN_REDUCE_TENSOR_", "";
    /// Modes of normalizations, such as `LAYER_NORM`.
    NORM_MODES: cudnnBackendNormMode_t, "CUDNN_", "";
    /// Modes of resampling, such as `MAXPOOL`.
    RESAMPLE_MODES: cudnnResampleMode_t, "CUDNN_RESAMPLE_", "";
    /// Notes about the arithmetic of an engine, such as `TENSOR_CORE`.
    NUMERICAL_NOTES: cudnnBackendNumericalNote_t, "CUDNN_NUMERICAL_NOTE_", "";
    /// Notes about the behavior of an engine, such as `RUNTIME_COMPILATION`.
    BEHAVIOR_NOTES: cudnnBackendBehaviorNote_t, "CUDNN_BEHAVIOR_NOTE_", "";
    /// Modes of the heuristics, such as `MODE_A`.
    HEURISTICS_MODES: cudnnBackendHeurMode_t, "CUDNN_HEUR_", "";
}

/// Returns the name of a data type, such as `half`.
pub fn data_type(number: i64) -> String {
    DATA_TYPES.short(number, "type")
}

/// Returns the name of a knob, such as `TILE_SIZE`, in capitals as in most engine configurations.
pub fn knob(number: i64) -> String {
    KNOBS.known(number as u32).map_or_else(|| format!("KNOB_{number}"), str::to_owned)
}

/// Returns the name of a note about the arithmetic of an engine, such as `tensor_core`.
pub fn numerical_note(number: i64) -> String {
    NUMERICAL_NOTES.short(number, "note")
}

/// Returns the name of a note about the behavior of an engine, such as `runtime_compilation`.
pub fn behavior_note(number: i64) -> String {
    BEHAVIOR_NOTES.short(number, "note")
}

/// Returns the name of a mode of the heuristics, such as `mode_a`.
pub fn heuristics_mode(number: i64) -> String {
    HEURISTICS_MODES.short(number, "mode")
}

/// Returns whether this could be a name from [`heuristics_mode`] in a release that knows other modes.
pub fn is_heuristics_mode(name: &str) -> bool {
    let is_known = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte));
    match name.strip_prefix("mode ") {
        Some(number) => number.parse::<i64>().is_ok(),
        None => name.starts_with("mode") && is_known(name),
    }
}

/// Returns the name of an attribute without the prefix, such as `TENSOR_DIMENSIONS`.
pub fn attribute(name: cudnnBackendAttributeName_t) -> String {
    ATTRIBUTES.name(i64::from(name.0) as u32)
}

/// Returns the name of a kind without the prefix and the suffix, such as `TENSOR`.
pub fn kind(kind: cudnnBackendDescriptorType_t) -> String {
    KINDS.name(i64::from(kind.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_have_the_prefix_and_lead_to_their_numbers() {
        fn check<T: Copy + Into<u32>>(names: &Names<T>) {
            for (value, full) in names.all {
                assert!(full.to_str().unwrap().starts_with(names.prefix), "{full:?}");
                let number = (*value).into();
                assert_eq!(names.number(&names.name(number)), Some(number), "{full:?}");
            }
        }
        check(&KINDS);
        check(&ATTRIBUTES);
        check(&KNOBS);
        check(&STATUSES);
        check(&DATA_TYPES);
        check(&POINTWISE_MODES);
        check(&REDUCTIONS);
        check(&NORM_MODES);
        check(&RESAMPLE_MODES);
        check(&NUMERICAL_NOTES);
        check(&BEHAVIOR_NOTES);
        check(&HEURISTICS_MODES);
        for name in ["mode_of_a_later_release", "mode_2", "mode 99", "mode -1"] {
            assert!(is_heuristics_mode(name), "{name}");
        }
        assert!(HEURISTICS_MODES.all_short().iter().all(|name| is_heuristics_mode(name)));
        for name in ["MODE_A", "mode x", "mode-a", "fallback", ""] {
            assert!(!is_heuristics_mode(name), "{name}");
        }
        assert_eq!([STATUSES.number("NO_SUCH_NAME"), KINDS.number("TENSOR_DESCRIPTOR")], [None; 2]);
    }
}
