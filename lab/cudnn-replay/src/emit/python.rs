//! Writes Python.

use std::collections::BTreeMap;

use cudnn_graph::Value;
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
    cudnnBackendHeurMode_t as Mode,
};

use super::case::Case;
use super::constants::{self, Constant};
use super::elements::{Elements, Number, NumberType};
use super::escape::{byte_string, hexadecimal};
use super::memory::ProgramMemory;
use super::syntax::{Setting, Syntax, joined, knobs, template};

/// Writes Python, with definitions of the names from cudnn.h that the program uses.
pub(super) struct Python {
    constants: BTreeMap<&'static str, i64>,
    /// The captured version of cuDNN.
    captured: usize,
}

impl Python {
    pub(super) fn new(case: &Case) -> Self {
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
        let constants = used.into_iter().filter_map(|constant| Some((constant.name?, constant.value))).collect();
        Python { constants, captured: case.start.cudnn }
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

impl Syntax for Python {
    const TEMPLATE: &'static str = include_str!("templates/program.py");
    const COMMENT: &'static str = "#";
    const HOW_TO_RUN: &'static [&'static str] = &[
        "python3 program.py",
        "It uses cuDNN in CUDNN_LOADER_DIR or a package nvidia-cudnn-cu12 or -cu13, or LIBRARY below.",
    ];

    fn create(&self, index: usize, kind: &Constant) -> String {
        format!("d{index} = create({})", constant(kind))
    }

    fn set(&self, index: usize, Setting { name, ty, count, elements }: &Setting<'_>) -> String {
        let attribute = format!("d{index}, {}, {}, {count}", constant(name), constant(ty));
        match elements {
            Elements::Numbers(ty, numbers) => {
                format!("set_elements({attribute}, {}, [{}])", type_name(*ty), joined(numbers, number))
            }
            Elements::Bytes(bytes) => format!("set_bytes({attribute}, b{})", byte_string(bytes, hexadecimal)),
            Elements::Descriptors(nodes) => {
                format!("set_elements({attribute}, c_void_p, [{}])", joined(nodes, |node| format!("d{node}")))
            }
            Elements::Handles => format!("set_handle({attribute})"),
        }
    }

    fn finalize(&self, index: usize) -> String {
        format!("finalize(d{index})")
    }

    fn name_graph(&self, index: usize) -> String {
        format!("graph = d{index}")
    }

    fn options<'a>(
        &'a self,
        case: &'a Case,
        memory: &'a ProgramMemory<'_>,
        can_execute: bool,
    ) -> impl Iterator<Item = String> + 'a {
        let boolean = |value| if value { "True" } else { "False" };
        let knobs = joined(&knobs(case), |(knob, value)| format!("({}, {value})", constant(knob)));
        let start = [
            format!(
                "ENGINE = {}  # -1: the heuristics choose the engine",
                case.engine().map_or(-1, |engine| engine.index)
            ),
            format!("KNOBS = [{knobs}]  # of the engine"),
            format!("DEVICE = b{}", byte_string(case.device().as_bytes(), hexadecimal)),
            String::new(),
            format!("GRAPH_HAS_HANDLE = {}", boolean(case.has_handle())),
            format!("CAN_EXECUTE = {}", boolean(can_execute)),
            "# Buffers: the size, and the distance of the start from an aligned address.".to_owned(),
            "BUFFERS = [".to_owned(),
        ];
        let buffers = memory.buffers.iter();
        let buffers = buffers.map(|buffer| format!("    ({}, {}),", buffer.bytes, buffer.misalignment));
        let middle = [
            "]".to_owned(),
            "# Id, buffer (-1: host memory), offset, size, size of an element, elements to fill it with, content"
                .to_owned(),
            "# (empty: filled, or a null pointer), and captured content after the execution.".to_owned(),
            "TENSORS = [".to_owned(),
        ];
        let tensors = memory.tensors.iter().map(|tensor| {
            let place = tensor.buffer.map_or("-1, 0".to_owned(), |(buffer, offset)| format!("{buffer}, {offset}"));
            format!(
                "    ({}, {place}, {}, {}, [{}], b{}, b{}),",
                tensor.uid,
                tensor.bytes,
                tensor.element_bytes,
                joined(&tensor.numbers, |number| format!("{number:#x}")),
                byte_string(&tensor.value, hexadecimal),
                byte_string(tensor.after, hexadecimal)
            )
        });
        start.into_iter().chain(buffers).chain(middle).chain(tensors).chain(["]".to_owned()])
    }

    fn constants(&self) -> Vec<String> {
        let constants = self.constants.iter().map(|(name, value)| format!("{name} = {value}"));
        constants.chain([format!("CAPTURED = {}", self.captured)]).collect()
    }
}

fn type_name(ty: NumberType) -> &'static str {
    match ty {
        NumberType::U8 => "c_ubyte",
        NumberType::I32 => "c_int32",
        NumberType::I64 => "c_int64",
        NumberType::F32 => "c_float",
        NumberType::F64 => "c_double",
    }
}

fn constant(Constant { name, value, .. }: &Constant) -> String {
    name.map_or_else(|| value.to_string(), str::to_owned)
}

fn number(number: &Number) -> String {
    match number {
        Number::Integer(value) => value.to_string(),
        Number::Constant(value) => constant(value),
        Number::Float(value) => format!("{value:?}"),
    }
}
