//! Reads the engine and the knobs of a configuration from cuDNN.

use std::sync::Arc;

use cudnn_sys::types::{
    cudnnBackendBehaviorNote_t as BehaviorNote, cudnnBackendKnobType_t as Knob,
    cudnnBackendNumericalNote_t as NumericalNote, cudnnStatus_t as Status,
};

use crate::cudnn::{Descriptor, UNCLEAR};
use crate::last_error::own_calls;
use crate::shadow::elements::{Kind, Name, Type};
pub(crate) use crate::shadow::facts::ChosenEngine;

/// More than cuDNN provides: 9.28 has 13 notes of each kind and 59 knobs.
const MAX_NOTES: usize = 64;
const MAX_KNOBS: usize = 128;

impl ChosenEngine {
    /// Reads the engine and the knobs of a configuration, and hides the calls from the program.
    pub(crate) fn read_unnoticed(configuration: &Descriptor<'_>) -> Arc<Self> {
        Arc::new(own_calls(configuration.cudnn, || ChosenEngine::read(configuration)))
    }

    pub(crate) fn read(configuration: &Descriptor<'_>) -> Self {
        let engine = with_engine(configuration, |engine| {
            Ok((index(engine).ok(), numerical_notes(engine), behavior_notes(engine)))
        });
        let knobs = knobs(configuration).unwrap_or_default();
        let Ok((engine, numerical, behavior)) = engine else {
            return ChosenEngine { knobs, ..ChosenEngine::default() };
        };
        let (numerical_notes, behavior_notes) = (numerical.unwrap_or_default(), behavior.unwrap_or_default());
        ChosenEngine { engine, numerical_notes, behavior_notes, knobs }
    }
}

pub(crate) fn with_engine<T>(
    configuration: &Descriptor<'_>,
    work: impl FnOnce(&Descriptor<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    configuration.with_child(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, work)
}

pub(crate) fn index(engine: &Descriptor<'_>) -> Result<i64, Status> {
    engine.single(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64)
}

pub(crate) fn compiles_code(engine: &Descriptor<'_>) -> Result<bool, Status> {
    Ok(behavior_notes(engine)?.contains(&BehaviorNote::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION))
}

fn behavior_notes(engine: &Descriptor<'_>) -> Result<Vec<BehaviorNote>, Status> {
    notes(engine, Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE)
}

fn numerical_notes(engine: &Descriptor<'_>) -> Result<Vec<NumericalNote>, Status> {
    notes(engine, Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE)
}

fn notes<T: Copy + Default>(engine: &Descriptor<'_>, name: Name, ty: Type) -> Result<Vec<T>, Status> {
    let mut notes = [T::default(); MAX_NOTES];
    let count = engine.read(name, ty, &mut notes)?;
    Ok(notes.get(..count).ok_or(UNCLEAR)?.to_vec())
}

/// Returns the types and values of the knobs of a configuration, sorted by type.
pub(crate) fn knobs(configuration: &Descriptor<'_>) -> Result<Vec<(u32, i64)>, Status> {
    knobs_with_room(configuration, MAX_KNOBS)?.ok_or(UNCLEAR)
}

/// Like [`knobs`], but returns `None` if there may be more than `room` knobs, which cuDNN does not tell in advance.
pub(crate) fn knobs_with_room(configuration: &Descriptor<'_>, room: usize) -> Result<Option<Vec<(u32, i64)>>, Status> {
    let (name, kind) = (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    configuration.with_children(name, kind, room, |choices| {
        if choices.len() >= room {
            return Ok(None);
        }
        let mut knobs = Vec::with_capacity(choices.len());
        for choice in choices {
            let knob: Knob = choice.single(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE)?;
            let value = choice.single(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64)?;
            knobs.push((i64::from(knob.0) as u32, value));
        }
        knobs.sort_unstable();
        Ok(Some(knobs))
    })
}
