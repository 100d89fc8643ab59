//! Reads the engine and the knobs of a configuration from cuDNN.

use std::sync::Arc;

use cudnn_sys::types::{
    cudnnBackendBehaviorNote_t as BehaviorNote, cudnnBackendKnobType_t as Knob,
    cudnnBackendNumericalNote_t as NumericalNote, cudnnStatus_t as Status,
};

use crate::cudnn::{Cudnn, LayerDescriptor, UNCLEAR, read};
use crate::last_error::own_calls;
use crate::shadow::elements::{Kind, Name, Raw, Type};

/// More than cuDNN provides: 9.28 has 13 notes of each kind and 59 knobs.
const MAX_NOTES: usize = 64;
const MAX_KNOBS: usize = 128;

/// The engine that the program has chosen, as far as cuDNN reports it.
#[derive(Debug, Default)]
pub(crate) struct ChosenEngine {
    pub(crate) engine: Option<i64>,
    pub(crate) numerical_notes: Vec<NumericalNote>,
    pub(crate) behavior_notes: Vec<BehaviorNote>,
    pub(crate) knobs: Vec<(u32, i64)>,
}

impl ChosenEngine {
    /// Reads the engine and the knobs of a configuration, without a trace for the program.
    ///
    /// # Safety
    /// The configuration is finalized and live.
    pub(crate) unsafe fn read_unnoticed(cudnn: &Cudnn, configuration: Raw) -> Arc<Self> {
        // SAFETY: guaranteed by the caller.
        Arc::new(own_calls(cudnn, || unsafe { ChosenEngine::read(cudnn, configuration) }))
    }

    /// Reads the engine and the knobs of a configuration.
    ///
    /// # Safety
    /// The configuration is finalized and live.
    pub(crate) unsafe fn read(cudnn: &Cudnn, configuration: Raw) -> Self {
        // SAFETY: guaranteed by the caller.
        let engine = unsafe {
            with_engine(cudnn, configuration, |engine| {
                Ok((index(engine).ok(), numerical_notes(engine), behavior_notes(engine)))
            })
        };
        // SAFETY: guaranteed by the caller.
        let knobs = unsafe { knobs(cudnn, configuration) }.unwrap_or_default();
        let Ok((engine, numerical, behavior)) = engine else {
            return ChosenEngine { knobs, ..ChosenEngine::default() };
        };
        let (numerical_notes, behavior_notes) = (numerical.unwrap_or_default(), behavior.unwrap_or_default());
        ChosenEngine { engine, numerical_notes, behavior_notes, knobs }
    }
}

/// Runs a closure with the engine of a configuration.
///
/// # Safety
/// The configuration is finalized and live.
pub(crate) unsafe fn with_engine<T>(
    cudnn: &Cudnn,
    configuration: Raw,
    work: impl FnOnce(&LayerDescriptor<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, |engine| {
        let mut to = [engine.raw()];
        let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        // SAFETY: guaranteed by the caller; cuDNN fills the descriptor.
        if unsafe { read(cudnn, configuration, name, ty, &mut to) }? != 1 {
            return Err(UNCLEAR);
        }
        work(engine)
    })
}

/// Returns the index of an engine.
pub(crate) fn index(engine: &LayerDescriptor<'_>) -> Result<i64, Status> {
    engine.single(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64)
}

/// Returns whether an engine compiles code.
pub(crate) fn compiles_code(engine: &LayerDescriptor<'_>) -> Result<bool, Status> {
    Ok(behavior_notes(engine)?.contains(&BehaviorNote::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION))
}

/// Returns an engine's notes about its behavior.
fn behavior_notes(engine: &LayerDescriptor<'_>) -> Result<Vec<BehaviorNote>, Status> {
    notes(engine, Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE)
}

/// Returns an engine's notes about its arithmetic.
fn numerical_notes(engine: &LayerDescriptor<'_>) -> Result<Vec<NumericalNote>, Status> {
    notes(engine, Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE)
}

fn notes<T: Copy + Default>(engine: &LayerDescriptor<'_>, name: Name, ty: Type) -> Result<Vec<T>, Status> {
    let mut notes = [T::default(); MAX_NOTES];
    let count = engine.read(name, ty, &mut notes)?;
    Ok(notes.get(..count).ok_or(UNCLEAR)?.to_vec())
}

/// Returns the types and values of the knobs of a configuration, sorted by type.
///
/// # Safety
/// The configuration is finalized and live.
pub(crate) unsafe fn knobs(cudnn: &Cudnn, configuration: Raw) -> Result<Vec<(u32, i64)>, Status> {
    // SAFETY: guaranteed by the caller.
    unsafe { knobs_with_room(cudnn, configuration, MAX_KNOBS) }?.ok_or(UNCLEAR)
}

/// Like [`knobs`], but returns `None` if there may be more knobs than there is room for. cuDNN fills existing descriptors
/// and does not report the required number first.
///
/// # Safety
/// The configuration is finalized and live.
pub(crate) unsafe fn knobs_with_room(
    cudnn: &Cudnn,
    configuration: Raw,
    room: usize,
) -> Result<Option<Vec<(u32, i64)>>, Status> {
    cudnn.with_descriptors(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, room, |choices| {
        let mut raw: Vec<Raw> = choices.iter().map(LayerDescriptor::raw).collect();
        let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        // SAFETY: guaranteed by the caller.
        let count = unsafe { read(cudnn, configuration, name, ty, &mut raw) }?;
        if count >= room {
            return Ok(None);
        }
        let mut knobs = Vec::with_capacity(count);
        for choice in choices.iter().take(count) {
            let knob: Knob = choice.single(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE)?;
            let value = choice.single(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64)?;
            knobs.push((i64::from(knob.0) as u32, value));
        }
        knobs.sort_unstable();
        Ok(Some(knobs))
    })
}
