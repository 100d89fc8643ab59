//! Writes the parts that all languages share: the statements that create the graph, and the template.

use cudnn_loader::cudnnBackendKnobType_t as Knob;
use cudnn_store::captures::Engine;

use super::case::Case;
use super::constants::{self, Constant};
use super::elements::Elements;
use super::header;
use super::memory::ProgramMemory;

pub(super) trait Syntax {
    /// The program, with placeholder lines such as `@header@`.
    const TEMPLATE: &'static str;
    const COMMENT: &'static str;
    const HOW_TO_RUN: &'static [&'static str];

    fn create(&self, index: usize, kind: &Constant) -> String;
    fn set(&self, index: usize, attribute: &Setting<'_>) -> String;
    fn finalize(&self, index: usize) -> String;
    fn name_graph(&self, index: usize) -> String;
    /// Returns the definitions of the options: engine, device, and memory.
    fn options<'a>(
        &'a self,
        case: &'a Case,
        memory: &'a ProgramMemory<'_>,
        can_execute: bool,
    ) -> impl Iterator<Item = String> + 'a;
    /// Returns the definitions of names, if the language has no header for them.
    fn constants(&self) -> Vec<String> {
        Vec::new()
    }
}

pub(super) struct Setting<'a> {
    pub(super) name: Constant,
    pub(super) ty: Constant,
    pub(super) count: i64,
    pub(super) elements: &'a Elements,
}

/// The maximum size of a program in bytes. Programs for real graphs have some hundred kilobytes.
const MAX_BYTES: usize = 16 << 20;

pub(super) fn write<S: Syntax>(syntax: &S, case: &Case) -> Result<String, String> {
    write_within(syntax, case, MAX_BYTES)
}

/// Writes a program of at most this size, line by line, so that the limit also applies to this process's memory.
pub(super) fn write_within<S: Syntax>(syntax: &S, case: &Case, max_bytes: usize) -> Result<String, String> {
    let (memory, cannot_execute) = match ProgramMemory::new(case) {
        Ok(memory) => (memory, None),
        Err(reason) => (ProgramMemory::default(), Some(reason)),
    };
    let header = header::lines(case, S::HOW_TO_RUN, cannot_execute.as_deref());
    let mut program = String::new();
    for line in template::<S>(case) {
        let (indentation, name) = line.split_at(line.len() - line.trim_start().len());
        let lines: &mut dyn Iterator<Item = String> = match name {
            "@header@" => &mut header.iter().map(|line| format!("{} {line}", S::COMMENT).trim_end().to_owned()),
            "@constants@" => &mut syntax.constants().into_iter(),
            "@options@" => &mut syntax.options(case, &memory, cannot_execute.is_none()),
            "@descriptors@" => &mut descriptors(syntax, case),
            text => &mut std::iter::once(text.to_owned()),
        };
        for line in lines {
            program.extend([indentation, &line, "\n"]);
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

pub(super) fn knobs(case: &Case) -> Vec<(Constant, i64)> {
    let knobs = case.engine().into_iter().flat_map(|engine| &engine.knobs).filter_map(|(name, value)| {
        let number = Engine::knob_number(name)?;
        Some((constants::knob(Knob(number as _)), *value))
    });
    knobs.collect()
}

fn descriptors<S: Syntax>(syntax: &S, case: &Case) -> impl Iterator<Item = String> {
    let nodes = case.graph().nodes().iter().enumerate().flat_map(move |(index, node)| {
        let created = std::iter::once_with(move || syntax.create(index, &constants::kind(node.kind)));
        let attributes = node.attributes.iter().map(move |attribute| {
            let elements = Elements::new(attribute);
            let (name, ty) = (constants::attribute(attribute.name), constants::attribute_type(attribute.ty));
            let count = attribute.value.count(attribute.ty);
            syntax.set(index, &Setting { name, ty, count, elements: &elements })
        });
        created.chain(attributes).chain(node.is_finalized.then(|| syntax.finalize(index)))
    });
    let last = case.graph().nodes().len().saturating_sub(1);
    nodes.chain(case.failure.is_none().then(|| syntax.name_graph(last)))
}

pub(super) fn joined<T>(list: &[T], format: impl Fn(&T) -> String) -> String {
    list.iter().map(format).collect::<Vec<_>>().join(", ")
}
