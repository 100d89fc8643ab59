//! Writes the parts that all languages share: the template, the statements that create the graph, and the options.

use cudnn_graph::Attribute;
use cudnn_loader::cudnnBackendKnobType_t as Knob;
use cudnn_store::captures::Engine;

use super::case::Case;
use super::constants::{self, Constant};
use super::elements::{Element, ElementType, Elements};
use super::header;
use super::memory::{EmittedTensor, ProgramMemory};

/// The literals and statements of a language.
pub(super) trait Syntax {
    /// The program. A line with a placeholder, such as `@header@`, is repeated for all of its values.
    const TEMPLATE: &'static str;
    const COMMENT: &'static str;
    const HOW_TO_RUN: &'static [&'static str];
    /// The start of a statement that defines a variable, and the end of every statement.
    const STATEMENT: [&'static str; 2];
    const FINALIZE: &'static str;
    const SET_HANDLE: &'static str;
    /// The end of numbers without a sign.
    const UNSIGNED: &'static str;
    const BOOLEANS: [&'static str; 2];
    /// What encloses a list and a tuple.
    const LIST: [&'static str; 2];
    const TUPLE: [&'static str; 2];

    fn type_name(ty: ElementType) -> &'static str;
    fn set_elements(attribute: &str, ty: &str, elements: &str) -> String;
    fn set_bytes(attribute: &str, bytes: &[u8]) -> String;
    fn constant(constant: &Constant) -> String;
    fn integer(value: i64) -> String;
    fn float(ty: ElementType, value: f64) -> String;
    /// Returns a literal without the number of bytes.
    fn bytes(bytes: &[u8]) -> String;
    /// Returns a literal with the number of bytes, which may include NULs.
    fn contents(bytes: &[u8]) -> String;
    /// Returns the definitions of names that a header may lack.
    fn constants(case: &Case) -> Vec<String>;
}

/// The maximum size of a program in bytes. Programs for real graphs have some hundred kilobytes.
const MAX_BYTES: usize = 16 << 20;

pub(super) fn write<S: Syntax>(case: &Case) -> Result<String, String> {
    write_within::<S>(case, MAX_BYTES)
}

/// Writes a program of at most this size, line by line, so that the limit also applies to this process's memory.
pub(super) fn write_within<S: Syntax>(case: &Case, max_bytes: usize) -> Result<String, String> {
    let (memory, cannot_execute) = match ProgramMemory::new(case) {
        Ok(memory) => (memory, None),
        Err(reason) => (ProgramMemory::default(), Some(reason)),
    };
    let header = header::lines(case, S::HOW_TO_RUN, cannot_execute.as_deref());
    let mut program = String::new();
    for line in template::<S>(case) {
        let (mut before, name, mut after) = placeholder(line).unwrap_or((line, "", ""));
        let one = |value: String| Some(value).into_iter();
        let values: &mut dyn Iterator<Item = String> = match name {
            "header" => &mut header.iter().map(|line| format!("{} {line}", S::COMMENT).trim_end().to_owned()),
            "constants" => &mut S::constants(case).into_iter(),
            "captured" => &mut one(case.start.cudnn.to_string()),
            "engine" => &mut one(S::integer(case.engine().map_or(-1, |engine| engine.index))),
            "knobs" => &mut one(list::<S, _>(&knobs(case), |(knob, value)| {
                tuple::<S>(&format!("{}, {}", S::constant(knob), S::integer(*value)))
            })),
            "device" => &mut one(S::bytes(case.device().as_bytes())),
            "graph_has_handle" => &mut one(boolean::<S>(case.has_handle())),
            "can_execute" => &mut one(boolean::<S>(cannot_execute.is_none())),
            "buffers" => &mut memory
                .buffers
                .iter()
                .map(|buffer| tuple::<S>(&format!("{}{U}, {}{U}", buffer.bytes, buffer.misalignment, U = S::UNSIGNED))),
            "tensors" => &mut memory.tensors.iter().map(tensor::<S>),
            "descriptors" => &mut descriptors::<S>(case),
            // The line contains no placeholder.
            _ => {
                (before, after) = (line, "");
                &mut one(String::new())
            }
        };
        for value in values {
            program.extend([before, &value, after, "\n"]);
            if program.len() > max_bytes {
                return Err(format!("the program would be larger than {max_bytes} bytes"));
            }
        }
    }
    Ok(program)
}

/// Returns the lines of the template for a graph or for a failed call. Lines between `@if graph@` or `@if failure@` and
/// `@end@` apply to only one of them.
pub(super) fn template<S: Syntax>(case: &Case) -> impl Iterator<Item = &'static str> {
    let skipped = if case.failure.is_some() { "@if graph@" } else { "@if failure@" };
    let mut is_kept = true;
    S::TEMPLATE.lines().filter(move |line| {
        let is_marker = matches!(line.trim_start(), "@if graph@" | "@if failure@" | "@end@");
        if is_marker {
            is_kept = line.trim_start() != skipped;
        }
        is_kept && !is_marker
    })
}

/// Returns the name of a placeholder, and what precedes and follows it.
fn placeholder(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once('@')?;
    let (name, after) = rest.split_once('@')?;
    Some((before, name, after))
}

pub(super) fn knobs(case: &Case) -> Vec<(Constant, i64)> {
    let knobs = case.engine().into_iter().flat_map(|engine| &engine.knobs).filter_map(|(name, value)| {
        let number = Engine::knob_number(name)?;
        Some((constants::knob(Knob(number as _)), *value))
    });
    knobs.collect()
}

fn tensor<S: Syntax>(tensor: &EmittedTensor<'_>) -> String {
    let (buffer, offset) = tensor.buffer.map_or((-1, 0), |(buffer, offset)| (buffer as i64, offset));
    tuple::<S>(&format!(
        "{}, {buffer}, {offset}{U}, {}{U}, {}{U}, {}, {}, {}",
        S::integer(tensor.uid),
        tensor.bytes,
        tensor.element_bytes,
        list::<S, _>(&tensor.numbers, |number| format!("{number:#x}{}", S::UNSIGNED)),
        S::contents(&tensor.value),
        S::contents(tensor.after),
        U = S::UNSIGNED,
    ))
}

/// Returns the statements that create the graph or repeat the failed call.
fn descriptors<S: Syntax>(case: &Case) -> impl Iterator<Item = String> {
    let [define, end] = S::STATEMENT;
    let nodes = case.graph().nodes().iter().enumerate().flat_map(move |(index, node)| {
        let create = move || format!("{define}d{index} = create({}){end}", S::constant(&constants::kind(node.kind)));
        let set = move |attribute| format!("{}{end}", set::<S>(index, attribute));
        let finalize = node.is_finalized.then(|| format!("{}(d{index}){end}", S::FINALIZE));
        std::iter::once_with(create).chain(node.attributes.iter().map(set)).chain(finalize)
    });
    let last = case.graph().nodes().len().saturating_sub(1);
    nodes.chain(case.failure.is_none().then(|| format!("{define}graph = d{last}{end}")))
}

fn set<S: Syntax>(index: usize, attribute: &Attribute) -> String {
    let [name, ty] = [constants::attribute(attribute.name), constants::attribute_type(attribute.ty)];
    let count = attribute.value.count(attribute.ty);
    let arguments = format!("d{index}, {}, {}, {count}", S::constant(&name), S::constant(&ty));
    match Elements::new(attribute) {
        Elements::Bytes(bytes) => S::set_bytes(&arguments, &bytes),
        Elements::Handles => format!("{}({arguments})", S::SET_HANDLE),
        Elements::List(ty, elements) => {
            let element = |element: &Element| match element {
                Element::Integer(value) | Element::Constant(Constant { name: None, value, .. }) => S::integer(*value),
                Element::Constant(Constant { name: Some(name), .. }) => (*name).to_owned(),
                Element::Float(value) => S::float(ty, *value),
                Element::Descriptor(node) => format!("d{node}"),
            };
            S::set_elements(&arguments, S::type_name(ty), &joined(&elements, element))
        }
    }
}

fn joined<T>(list: &[T], format: impl Fn(&T) -> String) -> String {
    list.iter().map(format).collect::<Vec<_>>().join(", ")
}

fn list<S: Syntax, T>(items: &[T], format: impl Fn(&T) -> String) -> String {
    let [start, end] = S::LIST;
    format!("{start}{}{end}", joined(items, format))
}

fn tuple<S: Syntax>(items: &str) -> String {
    let [start, end] = S::TUPLE;
    format!("{start}{items}{end}")
}

fn boolean<S: Syntax>(value: bool) -> String {
    let [no, yes] = S::BOOLEANS;
    if value { yes } else { no }.to_owned()
}
