//! Looks up the names of numbers in cudnn.h.

use std::ffi::CStr;

use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as Knob,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) ty: &'static str,
    /// The name of the value, if these bindings know it.
    pub(super) name: Option<&'static str>,
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

/// Returns the element of an attribute, or `None` if the type is not an enum.
pub(super) fn element(ty: Type, value: i64) -> Option<Constant> {
    cudnn_graph::enumerator(ty, value).map(|(enumeration, name)| constant(enumeration, name, value))
}
