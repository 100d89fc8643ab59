//! Describes engines, knobs and plans, from the attributes that the program has set or read.

use std::fmt::Write;
use std::sync::Arc;

use super::names;
use crate::shadow::content::Child;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, numbers};
use crate::shadow::facts::Facts;

/// Maximum number of knobs in a label.
const MAX_KNOBS: usize = 16;

/// Adds the engine, the knobs, the notes, the workspace size and the place among the proposals, if known.
pub(super) fn describe(content: &Arc<Content>, text: &mut String) {
    if let Some(index) = engine(content) {
        let _ = write!(text, "; engine {index}");
        let knobs = knobs(content);
        let shown: Vec<_> =
            knobs.iter().take(MAX_KNOBS).map(|(knob, value)| format!("{}={value}", names::knob(*knob))).collect();
        if !shown.is_empty() {
            let more = if knobs.len() > MAX_KNOBS { " .." } else { "" };
            let _ = write!(text, " {{{}{more}}}", shown.join(" "));
        }
        let notes = notes(content);
        if !notes.is_empty() {
            let _ = write!(text, " {}", notes.join(" "));
        }
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

/// Returns the notes about the engine of an engine, a configuration or a plan.
fn notes(content: &Content) -> Vec<String> {
    const ENGINE: Name = Name::CUDNN_ATTR_ENGINECFG_ENGINE;
    let of = |facts: &Facts| {
        let named = |name, named: fn(i64) -> String| {
            let (ty, bytes) = facts.elements(name)?;
            Some(numbers(ty, bytes.as_slice()).into_iter().map(named).collect::<Vec<String>>())
        };
        let numerical = named(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, names::numerical_note).unwrap_or_default();
        let behavior = named(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, names::behavior_note).unwrap_or_default();
        [numerical, behavior].concat()
    };
    match content.kind {
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => content.facts.as_deref().map(of).unwrap_or_default(),
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => match content.child(ENGINE) {
            Some(set) => notes(set),
            None => {
                let read = content.facts.as_ref().map(|facts| facts.children(ENGINE)).unwrap_or_default();
                read.first().map(|facts| of(facts)).unwrap_or_default()
            }
        },
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).map(|it| notes(it)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Returns the place of a configuration among the proposals of the heuristics, from 1, and the number of proposals.
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

/// Formats a knob as `TILE_SIZE=3`.
pub(super) fn knob_choice(choice: &Content) -> Option<String> {
    let knob = choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)?;
    Some(format!("{}={}", names::knob(knob), choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?))
}

/// Returns the engine index of an engine, a configuration or a plan.
fn engine(content: &Content) -> Option<i64> {
    match content.kind {
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => content.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => match content.child(Name::CUDNN_ATTR_ENGINECFG_ENGINE) {
            Some(set) => engine(set),
            None => {
                let read = content.facts.as_ref()?.children(Name::CUDNN_ATTR_ENGINECFG_ENGINE);
                number(read.first()?, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
            }
        },
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            engine(content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?)
        }
        _ => None,
    }
}

/// Returns the knobs of a configuration or a plan.
fn knobs(content: &Content) -> Vec<(i64, i64)> {
    const TYPE: Name = Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE;
    const VALUE: Name = Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE;
    const CHOICES: Name = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    match content.kind {
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => {
            let set = content.children(CHOICES);
            if set.is_empty() {
                let read = content.facts.as_ref().map(|facts| facts.children(CHOICES)).unwrap_or_default();
                read.iter().filter_map(|choice| Some((number(choice, TYPE)?, number(choice, VALUE)?))).collect()
            } else {
                let set = set.iter().filter_map(Child::content);
                set.filter_map(|choice| Some((choice.number(TYPE)?, choice.number(VALUE)?))).collect()
            }
        }
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).map(|it| knobs(it)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn number(facts: &Facts, name: Name) -> Option<i64> {
    let (ty, bytes) = facts.elements(name)?;
    numbers(ty, bytes.as_slice()).first().copied()
}

/// Formats a size as `4.0 MiB`.
pub(crate) fn bytes(count: i64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..0x10_0000 => format!("{:.1} KiB", count as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", count as f64 / f64::from(0x10_0000)),
        _ => format!("{:.1} GiB", count as f64 / f64::from(0x4000_0000)),
    }
}
