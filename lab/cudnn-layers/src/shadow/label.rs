//! Describes a descriptor in one line: the label of its graph (see [`cudnn_graph::label`]), and for example `; engine
//! 12 {TILE_SIZE=3} tensor_core; proposal 1 of 5; workspace 4.0 MiB`, as far as the program has set or read these
//! values.

use std::fmt::Write;
use std::sync::Arc;

use cudnn_graph::{label, names};

use super::content::Content;
use super::elements::{Kind, Name};
use super::facts::{ChosenEngine, DescriptorFacts};
use super::graph::known_parts;
use crate::report::rounded;

/// Returns the label of a descriptor, if it has a useful description.
pub(super) fn describe(content: &Arc<Content>) -> Option<String> {
    Some(match content.kind {
        Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => return None,
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => {
            let mode = content.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE);
            format!("{}; heuristics {}", graph_below(content), mode.map(names::heuristics_mode).unwrap_or_default())
        }
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR
        | Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
        | Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            let mut text = graph_below(content);
            add_details(content, &mut text);
            text
        }
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => knob(&KnownDescriptor::Set(content))?,
        kind if kind.name().is_none() => return None,
        _ => label::describe(&known_parts(content)),
    })
}

fn graph_below(content: &Arc<Content>) -> String {
    match super::graph_of(content) {
        Some(graph) => label::describe(&known_parts(graph)),
        None if content.attribute(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION).is_some() => {
            "plan restored from JSON".to_owned()
        }
        None => "unknown graph".to_owned(),
    }
}

const MAX_KNOBS: usize = 16;

/// Adds the known engine, knobs, notes, workspace size and position among the proposals.
fn add_details(content: &Content, text: &mut String) {
    let configuration = match content.kind {
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).map(Arc::as_ref)
        }
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => Some(content),
        _ => None,
    };
    let engine = match configuration {
        Some(configuration) => {
            KnownDescriptor::Set(configuration).parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE).into_iter().next()
        }
        None => Some(KnownDescriptor::Set(content)),
    };
    let chosen = configuration.and_then(|configuration| configuration.facts.as_ref()?.chosen());
    let known = |name| engine.as_ref().map(|engine| engine.numbers(name)).unwrap_or_default();
    let index = known(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX).first().copied();
    if let Some(index) = index.or_else(|| chosen?.engine) {
        let _ = write!(text, "; engine {index}");
        let choices = configuration.map(|it| KnownDescriptor::Set(it).parts(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES));
        let mut knobs: Vec<String> = choices.iter().flatten().filter_map(knob).collect();
        if let Some(chosen) = chosen.filter(|_| knobs.is_empty()) {
            knobs.extend(chosen.knobs.iter().map(|(knob, value)| format!("{}={value}", names::knob((*knob).into()))));
        }
        if let Some(shown) = knobs.get(..knobs.len().min(MAX_KNOBS)).filter(|shown| !shown.is_empty()) {
            let more = if knobs.len() > MAX_KNOBS { " .." } else { "" };
            let _ = write!(text, " {{{}{more}}}", shown.join(" "));
        }
        let (numerical, behavior): (Vec<i64>, Vec<i64>) = match chosen {
            Some(ChosenEngine { numerical_notes, behavior_notes, .. }) => (
                numerical_notes.iter().map(|note| note.0.into()).collect(),
                behavior_notes.iter().map(|note| note.0.into()).collect(),
            ),
            None => (known(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE), known(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)),
        };
        let numerical = numerical.into_iter().map(names::numerical_note);
        numerical.chain(behavior.into_iter().map(names::behavior_note)).for_each(|note| text.extend([" ", &note]));
        if let Some((place, count)) = place(content) {
            let tuned = if is_tuned(content) { ", tuned" } else { "" };
            let _ = write!(text, "; proposal {place} of {count}{tuned}");
        }
    }
    match content.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        Some(size) if size > 0 => {
            let _ = write!(text, "; workspace {}", bytes(size));
        }
        _ => {}
    }
}

/// A descriptor that the program has set in a configuration, or has read from it.
enum KnownDescriptor<'a> {
    Set(&'a Content),
    Read(Arc<DescriptorFacts>),
}

impl<'a> KnownDescriptor<'a> {
    fn parts(&self, name: Name) -> Vec<KnownDescriptor<'a>> {
        let (set, facts) = match self {
            KnownDescriptor::Set(content) => (content.children(name), content.facts.as_ref()),
            KnownDescriptor::Read(facts) => (&[][..], Some(facts)),
        };
        let set: Vec<_> = set.iter().flatten().map(|content| KnownDescriptor::Set(content)).collect();
        let read = || {
            facts.map(|facts| facts.children(name)).unwrap_or_default().into_iter().map(KnownDescriptor::Read).collect()
        };
        if set.is_empty() { read() } else { set }
    }

    fn numbers(&self, name: Name) -> Vec<i64> {
        match self {
            KnownDescriptor::Set(content) => content.numbers(name),
            KnownDescriptor::Read(facts) => facts.numbers(name),
        }
    }

    fn number(&self, name: Name) -> Option<i64> {
        self.numbers(name).first().copied()
    }
}

/// Formats a knob as `TILE_SIZE=3`.
fn knob(choice: &KnownDescriptor<'_>) -> Option<String> {
    let knob = choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)?;
    Some(format!("{}={}", names::knob(knob), choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?))
}

/// Returns the position of a configuration among the proposals of the heuristics, from 1, and their number.
pub(crate) fn place(content: &Content) -> Option<(usize, usize)> {
    if content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR {
        return place(content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?);
    }
    let (heuristics, facts) = (content.origin.as_ref()?, content.facts.as_ref()?);
    let proposals = heuristics.facts.as_ref()?.children(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS);
    let place = proposals.iter().position(|proposal| Arc::ptr_eq(proposal, facts))?;
    Some((place + 1, proposals.len()))
}

/// Returns whether the layer `tuned` recommends the engine of a configuration or a plan.
fn is_tuned(content: &Content) -> bool {
    let configuration = content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    let configuration = configuration.map_or(content, Arc::as_ref);
    configuration.facts.as_ref().is_some_and(|facts| facts.is_tuned())
}

/// Formats a size as `4.0 MiB`.
pub(crate) fn bytes(count: i64) -> String {
    let (unit, name) = match count {
        ..1024 => return format!("{count} bytes"),
        1024..0x10_0000 => (0x400, "KiB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MiB"),
        _ => (0x4000_0000, "GiB"),
    };
    format!("{} {name}", rounded(u128::from(count.unsigned_abs()), unit, 1))
}
