//! Reads the engine of a plan from cuDNN, and adds it to the labels of the plan.

use crate::cudnn::Descriptor;
use crate::engine::ChosenEngine;
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Type};

/// Reads the engine, knobs and notes of a plan, which all labels of the plan then show.
pub(super) fn learn(plan: &Descriptor<'_>, workspace: i64) {
    let Some(content) = shadow::content(plan.raw()) else { return };
    if let Some(facts) = &content.facts {
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
        facts.learn(name, Type::CUDNN_TYPE_INT64, &workspace.to_ne_bytes());
    }
    let Some(configuration) = content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) else { return };
    let (name, kind) = (Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if let Ok(choice) = plan.with_child(name, kind, |configuration| Ok(ChosenEngine::read(configuration))) {
        add_engine(configuration, &choice);
        add_knobs(configuration, &choice);
    }
}

fn add_engine(configuration: &Content, choice: &ChosenEngine) {
    let place = match configuration.child(Name::CUDNN_ATTR_ENGINECFG_ENGINE) {
        Some(engine) => engine.facts.clone(),
        None => configuration
            .facts
            .as_ref()
            .and_then(|facts| facts.learn_children(Name::CUDNN_ATTR_ENGINECFG_ENGINE, 1).into_iter().next()),
    };
    let Some(facts) = place else { return };
    if let Some(index) = choice.engine {
        let name = Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX;
        facts.learn(name, Type::CUDNN_TYPE_INT64, &index.to_ne_bytes());
    }
    let numerical: Vec<u8> = choice.numerical_notes.iter().flat_map(|note| note.0.to_ne_bytes()).collect();
    let behavior: Vec<u8> = choice.behavior_notes.iter().flat_map(|note| note.0.to_ne_bytes()).collect();
    for (name, ty, notes) in [
        (Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE, numerical),
        (Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE, behavior),
    ] {
        facts.learn(name, ty, &notes);
    }
}

fn add_knobs(configuration: &Content, choice: &ChosenEngine) {
    const CHOICES: Name = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
    let is_set = configuration.attribute(CHOICES).is_some();
    let Some(facts) = configuration.facts.as_ref().filter(|_| !is_set && !choice.knobs.is_empty()) else { return };
    let places = facts.learn_children(CHOICES, choice.knobs.len());
    for (place, (knob, value)) in places.iter().zip(&choice.knobs) {
        let (name, ty) = (Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE);
        place.learn(name, ty, &knob.to_ne_bytes());
        let name = Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE;
        place.learn(name, Type::CUDNN_TYPE_INT64, &value.to_ne_bytes());
    }
}
