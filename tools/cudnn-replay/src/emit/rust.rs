//! Writes Rust.

use super::constants::Constant;
use super::elements::{Elements, Number, NumberType};
use super::escape::{byte_string, hexadecimal};
use super::syntax::{Options, Setting, Syntax, joined};

pub(super) struct Rust;

impl Syntax for Rust {
    const TEMPLATE: &'static str = include_str!("templates/program.rs");
    const COMMENT: &'static str = "//";
    const HOW_TO_RUN: &'static [&'static str] = &[
        "Save this file as src/main.rs of a package, with these lines in Cargo.toml:",
        "  [package]",
        "  name = \"program\"",
        "  edition = \"2024\"",
        "  [dependencies]",
        "  cudnn-loader = { path = \"cudnn-shim/cudnn-loader\" }  # in a checkout of cudnn-shim",
        "CUDNN_LOADER_DIR=CUDNN/lib cargo run",
    ];

    fn create(&self, index: usize, kind: &Constant) -> String {
        format!("let d{index} = create({});", constant(kind))
    }

    fn set(&self, index: usize, Setting { name, ty, count, elements }: &Setting<'_>) -> String {
        let attribute = format!("d{index}, {}, {}, {count}", constant(name), constant(ty));
        match elements {
            Elements::Numbers(ty, numbers) => {
                let numbers = joined(numbers, |value| number(*ty, value));
                format!("set!({}, {attribute}, [{numbers}]);", type_name(*ty))
            }
            Elements::Bytes(bytes) => format!("set!(u8, {attribute}, *b{});", byte_string(bytes, hexadecimal)),
            Elements::Descriptors(nodes) => {
                format!("set!(Descriptor, {attribute}, [{}]);", joined(nodes, |node| format!("d{node}")))
            }
            Elements::Handles => {
                format!("if !handle.is_null() {{ set!(Handle, {attribute}, [handle; {count}]); }}")
            }
        }
    }

    fn finalize(&self, index: usize) -> String {
        format!("finalize(\"d{index}\", d{index});")
    }

    fn name_graph(&self, index: usize) -> String {
        format!("let graph = d{index};")
    }

    fn options(&self, options: &Options<'_>) -> Vec<String> {
        let device = options.device.as_bytes();
        let knobs = joined(&options.knobs, |(knob, value)| format!("({}, {value})", constant(knob)));
        let mut lines = vec![
            "/// The engine; `None`: the heuristics choose it.".to_owned(),
            format!("const ENGINE: Option<i64> = {:?};", options.engine),
            "/// The settings of the engine.".to_owned(),
            format!("const KNOBS: &[(Knob, i64)] = &[{knobs}];"),
            format!("const DEVICE: &[u8; {}] = b{};", device.len(), byte_string(device, hexadecimal)),
            String::new(),
            format!("const GRAPH_HAS_HANDLE: bool = {};", options.has_handle),
            format!("const CAN_EXECUTE: bool = {};", options.can_execute),
            "const BUFFERS: &[Buffer] = &[".to_owned(),
        ];
        for buffer in &options.memory.buffers {
            lines.push(format!("    Buffer {{ bytes: {}, misalignment: {} }},", buffer.bytes, buffer.misalignment));
        }
        lines.push("];".to_owned());
        lines.push("const TENSORS: &[Tensor] = &[".to_owned());
        for tensor in &options.memory.tensors {
            lines.push("    Tensor {".to_owned());
            lines.push(format!("        uid: {},", tensor.uid));
            lines.push(format!("        buffer: {:?},", tensor.buffer.map(|(buffer, _)| buffer)));
            lines.push(format!("        offset: {},", tensor.buffer.map_or(0, |(_, offset)| offset)));
            lines.push(format!("        bytes: {},", tensor.bytes));
            lines.push(format!("        element_bytes: {},", tensor.element_bytes));
            lines.push(format!("        numbers: &[{}],", joined(&tensor.numbers, |number| format!("{number:#x}"))));
            lines.push(format!("        value: b{},", byte_string(&tensor.value, hexadecimal)));
            lines.push(format!("        after: b{},", byte_string(&tensor.after, hexadecimal)));
            lines.push("    },".to_owned());
        }
        lines.push("];".to_owned());
        lines
    }
}

fn type_name(ty: NumberType) -> &'static str {
    match ty {
        NumberType::U8 => "u8",
        NumberType::I32 => "i32",
        NumberType::I64 => "i64",
        NumberType::F32 => "f32",
        NumberType::F64 => "f64",
    }
}

fn constant(constant: &Constant) -> String {
    let path = match constant.ty {
        "cudnnBackendDescriptorType_t" => "Kind",
        "cudnnBackendAttributeName_t" => "Name",
        "cudnnBackendAttributeType_t" => "Type",
        "cudnnBackendKnobType_t" => "Knob",
        other => return format!("cudnn::{}", associated(other, constant)),
    };
    associated(path, constant)
}

fn associated(path: &str, Constant { name, value, .. }: &Constant) -> String {
    name.map_or_else(|| format!("{path}({value})"), |name| format!("{path}::{name}"))
}

fn number(ty: NumberType, number: &Number) -> String {
    match number {
        Number::Integer(value) => value.to_string(),
        Number::Constant(Constant { name: None, value, .. }) => value.to_string(),
        Number::Constant(value) => format!("{}.0 as i32", constant(value)),
        Number::Float(value) if ty == NumberType::F32 => format!("{:?}", *value as f32),
        Number::Float(value) => format!("{value:?}"),
    }
}
