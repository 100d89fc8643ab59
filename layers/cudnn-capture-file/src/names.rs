//! Converts cuDNN's names of kinds and attributes to numbers and back, without the common prefixes.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::LazyLock;

use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendKnobType_t as Knob,
    cudnnStatus_t as Status,
};

/// Names without the prefix and the suffix. An unknown number is written as `#1234`.
pub(crate) struct Names {
    by_name: HashMap<&'static str, u32>,
    by_number: HashMap<u32, &'static str>,
}

impl Names {
    fn new(all: impl Iterator<Item = (u32, &'static CStr)>, prefix: &str, suffix: &str) -> Self {
        let mut names = Names { by_name: HashMap::new(), by_number: HashMap::new() };
        for (number, name) in all {
            let name = name.to_str().unwrap_or_default();
            let name = name.strip_prefix(prefix).unwrap_or(name);
            let name = name.strip_suffix(suffix).unwrap_or(name);
            names.by_name.insert(name, number);
            // Two names may share a number.
            names.by_number.entry(number).or_insert(name);
        }
        names
    }

    /// Returns the name of a number.
    pub(crate) fn name(&self, number: u32) -> String {
        self.by_number.get(&number).map_or_else(|| format!("#{number}"), |name| (*name).to_owned())
    }

    /// Returns the number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        match name.strip_prefix('#') {
            Some(number) => number.parse().ok(),
            None => self.by_name.get(name).copied(),
        }
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $names:ident: $type:ident, $prefix:literal, $suffix:literal;)*) => { $(
        $(#[$doc])*
        pub(crate) static $names: LazyLock<Names> = LazyLock::new(|| {
            let all = $type::ENUMERATORS.iter().map(|(value, name)| (i64::from(value.0) as u32, *name));
            Names::new(all, $prefix, $suffix)
        });
    )* };
}
names! {
    /// Such as `TENSOR`.
    KINDS: Kind, "CUDNN_BACKEND_", "_DESCRIPTOR";
    /// Such as `TENSOR_DIMENSIONS`.
    ATTRIBUTES: Name, "CUDNN_ATTR_", "";
    /// Such as `TILE_SIZE`.
    KNOBS: Knob, "CUDNN_KNOB_TYPE_", "";
    /// Such as `NOT_SUPPORTED`.
    STATUSES: Status, "CUDNN_STATUS_", "";
}
