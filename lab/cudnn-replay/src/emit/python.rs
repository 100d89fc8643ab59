//! The syntax of Python.

use std::collections::BTreeMap;

use cudnn_graph::Value;
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Mode,
};

use super::case::Case;
use super::constants::{self, Constant};
use super::elements::ElementType;
use super::escape::{byte_string, hexadecimal};
use super::syntax::{Syntax, knobs, template};

/// Python, with definitions of the names from cudnn.h that the program uses.
pub(super) struct Python;

impl Syntax for Python {
    const TEMPLATE: &'static str = include_str!("templates/program.py");
    const COMMENT: &'static str = "#";
    const HOW_TO_RUN: &'static [&'static str] = &[
        "python3 program.py",
        "It uses cuDNN in CUDNN_LOADER_DIR or a package nvidia-cudnn-cu12 or -cu13, or LIBRARY below.",
    ];
    const STATEMENT: [&'static str; 2] = ["", ""];
    const FINALIZE: &'static str = "finalize";
    const SET_HANDLE: &'static str = "set_handle";
    const UNSIGNED: &'static str = "";
    const BOOLEANS: [&'static str; 2] = ["False", "True"];
    const LIST: [&'static str; 2] = ["[", "]"];
    const TUPLE: [&'static str; 2] = ["(", ")"];

    fn type_name(ty: ElementType) -> &'static str {
        match ty {
            ElementType::U8 => "c_ubyte",
            ElementType::I32 => "c_int32",
            ElementType::I64 => "c_int64",
            ElementType::F32 => "c_float",
            ElementType::F64 => "c_double",
            ElementType::Descriptor => "c_void_p",
        }
    }

    fn set_elements(attribute: &str, ty: &str, elements: &str) -> String {
        format!("set_elements({attribute}, {ty}, [{elements}])")
    }

    fn set_bytes(attribute: &str, bytes: &[u8]) -> String {
        format!("set_bytes({attribute}, {})", Self::bytes(bytes))
    }

    fn constant(Constant { name, value, .. }: &Constant) -> String {
        name.map_or_else(|| value.to_string(), str::to_owned)
    }

    fn integer(value: i64) -> String {
        value.to_string()
    }

    fn float(_: ElementType, value: f64) -> String {
        format!("{value:?}")
    }

    fn bytes(bytes: &[u8]) -> String {
        format!("b{}", byte_string(bytes, hexadecimal))
    }

    fn contents(bytes: &[u8]) -> String {
        Self::bytes(bytes)
    }

    fn constants(case: &Case) -> Vec<String> {
        let mut used = template_constants(case);
        for node in case.graph().nodes() {
            used.push(constants::kind(node.kind));
            for attribute in &node.attributes {
                used.push(constants::attribute(attribute.name));
                used.push(constants::attribute_type(attribute.ty));
                if let Value::Integers(integers) = &attribute.value {
                    used.extend(integers.iter().filter_map(|integer| constants::element(attribute.ty, *integer)));
                }
            }
        }
        used.extend(knobs(case).into_iter().map(|(knob, _)| knob));
        let values: BTreeMap<_, _> =
            used.into_iter().filter_map(|constant| Some((constant.name?, constant.value))).collect();
        values.into_iter().map(|(name, value)| format!("{name} = {value}")).collect()
    }
}

fn template_constants(case: &Case) -> Vec<Constant> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = template::<Python>(case).flat_map(|line| line.split(move |character| !is_word(character)));
    let words: Vec<&str> = words.filter(|word| word.starts_with("CUDNN_")).collect();
    let mut used = Vec::new();
    macro_rules! of {
        ($($ty:ident: $function:ident,)*) => { $(
            let is_used = |name: &std::ffi::CStr| name.to_str().is_ok_and(|name| words.contains(&name));
            let named = $ty::ENUMERATORS.iter().filter(|(_, name)| is_used(name));
            used.extend(named.map(|(value, _)| constants::$function(*value)));
        )* };
    }
    of! { Kind: kind, Name: attribute, Type: attribute_type, Mode: mode, }
    used
}
