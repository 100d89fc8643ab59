//! Writes C++17.

use super::case::Case;
use super::constants::Constant;
use super::elements::{Elements, Number, NumberType};
use super::escape::{byte_string, octal};
use super::memory::ProgramMemory;
use super::syntax::{Setting, Syntax, joined, knobs};

pub(super) struct Cpp;

impl Syntax for Cpp {
    const TEMPLATE: &'static str = include_str!("templates/program.cpp");
    const COMMENT: &'static str = "//";
    const HOW_TO_RUN: &'static [&'static str] = &[
        "g++ -std=c++17 program.cpp -I CUDNN/include -I CUDA/include -L CUDNN/lib -l:libcudnn.so.9 -ldl -o program",
        "LD_LIBRARY_PATH=CUDNN/lib ./program",
    ];

    fn create(&self, index: usize, kind: &Constant) -> String {
        format!("auto d{index} = create({});", constant(kind))
    }

    fn set(&self, index: usize, Setting { name, ty, count, elements }: &Setting<'_>) -> String {
        let attribute = format!("d{index}, {}, {}, {count}", constant(name), constant(ty));
        match elements {
            Elements::Numbers(ty, numbers) => {
                let numbers = joined(numbers, |value| number(*ty, value));
                format!("SET({}, {attribute}, {numbers});", type_name(*ty))
            }
            Elements::Bytes(bytes) => format!("SET_BYTES({attribute}, {});", byte_string(bytes, octal)),
            Elements::Descriptors(nodes) if nodes.is_empty() => format!("SET_BYTES({attribute}, nullptr);"),
            Elements::Descriptors(nodes) => {
                format!("SET(cudnnBackendDescriptor_t, {attribute}, {});", joined(nodes, |node| format!("d{node}")))
            }
            Elements::Handles => format!("SET_HANDLE({attribute});"),
        }
    }

    fn finalize(&self, index: usize) -> String {
        format!("FINALIZE(d{index});")
    }

    fn name_graph(&self, index: usize) -> String {
        format!("auto graph = d{index};")
    }

    fn options<'a>(
        &'a self,
        case: &'a Case,
        memory: &'a ProgramMemory<'_>,
        can_execute: bool,
    ) -> impl Iterator<Item = String> + 'a {
        let engine = case.engine().map_or(-1, |engine| engine.index);
        let knobs = joined(&knobs(case), |(knob, value)| format!("{{{}, {}}}", constant(knob), integer(*value)));
        let start = [
            format!("static const int64_t kEngine = {};  // -1: the heuristics choose the engine", integer(engine)),
            format!("static const std::vector<Knob> kKnobs = {{{knobs}}};  // of the engine"),
            format!("static const char kDevice[] = {};", byte_string(case.device().as_bytes(), octal)),
            String::new(),
            format!("static const bool kGraphHasHandle = {};", case.has_handle()),
            format!("static const bool kCanExecute = {};", can_execute),
            "static const std::vector<Buffer> kBuffers = {".to_owned(),
        ];
        let buffers = memory.buffers.iter();
        let buffers = buffers.map(|buffer| format!("    {{{}u, {}u}},", buffer.bytes, buffer.misalignment));
        let middle = ["};".to_owned(), "static const std::vector<Tensor> kTensors = {".to_owned()];
        let tensors = memory.tensors.iter().map(|tensor| {
            let place = tensor.buffer.map_or("-1, 0".to_owned(), |(buffer, offset)| format!("{buffer}, {offset}u"));
            let numbers = joined(&tensor.numbers, |number| format!("{number:#x}u"));
            format!(
                "    {{{}, {place}, {}u, {}, {{{numbers}}}, {}, {}}},",
                integer(tensor.uid),
                tensor.bytes,
                tensor.element_bytes,
                bytes(&tensor.value),
                bytes(tensor.after)
            )
        });
        start.into_iter().chain(buffers).chain(middle).chain(tensors).chain(["};".to_owned()])
    }
}

/// Returns a string of these bytes with its length, because they may contain NULs.
fn bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() { "{}".to_owned() } else { format!("{{{}, {}u}}", byte_string(bytes, octal), bytes.len()) }
}

fn type_name(ty: NumberType) -> &'static str {
    match ty {
        NumberType::U8 => "unsigned char",
        NumberType::I32 => "int32_t",
        NumberType::I64 => "int64_t",
        NumberType::F32 => "float",
        NumberType::F64 => "double",
    }
}

fn constant(Constant { ty, name, value }: &Constant) -> String {
    name.map_or_else(|| format!("static_cast<{ty}>({value})"), str::to_owned)
}

fn number(ty: NumberType, number: &Number) -> String {
    match number {
        Number::Integer(value) => integer(*value),
        Number::Constant(Constant { name: Some(name), .. }) => (*name).to_owned(),
        Number::Constant(Constant { value, .. }) => integer(*value),
        Number::Float(value) if ty == NumberType::F32 => format!("{:?}f", *value as f32),
        Number::Float(value) => format!("{value:?}"),
    }
}

/// The smallest integers have no literals.
fn integer(value: i64) -> String {
    if value == i64::MIN { "INT64_MIN".to_owned() } else { value.to_string() }
}
