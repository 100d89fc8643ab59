//! Converts cuDNN's names of kinds and attributes to numbers and back, without the common prefixes.

use std::ffi::CStr;

use cudnn_sys::types::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendKnobType_t as Knob,
    cudnnStatus_t as Status,
};

/// Names without the prefix and the suffix. An unknown number is written as `#1234`.
pub(crate) struct Names<T: 'static> {
    /// Two names may share a number.
    all: &'static [(T, &'static CStr)],
    prefix: &'static str,
    suffix: &'static str,
}

impl<T: Copy + Into<u32>> Names<T> {
    /// Returns the name of a number.
    pub(crate) fn name(&self, number: u32) -> String {
        let known = self.all.iter().find(|(value, _)| (*value).into() == number).map(|(_, name)| self.shortened(name));
        known.map_or_else(|| format!("#{number}"), |name| String::from_utf8_lossy(name).into_owned())
    }

    /// Returns the number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        if let Some(number) = name.strip_prefix('#') {
            return number.parse().ok();
        }
        self.all.iter().find(|(_, known)| self.shortened(known) == name.as_bytes()).map(|(value, _)| (*value).into())
    }

    fn shortened(&self, name: &'static CStr) -> &'static [u8] {
        let name = name.to_bytes();
        let name = name.strip_prefix(self.prefix.as_bytes()).unwrap_or(name);
        name.strip_suffix(self.suffix.as_bytes()).unwrap_or(name)
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $names:ident: $type:ident, $prefix:literal, $suffix:literal;)*) => { $(
        $(#[$doc])*
        pub(crate) static $names: Names<$type> =
            Names { all: $type::ENUMERATORS, prefix: $prefix, suffix: $suffix };
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
