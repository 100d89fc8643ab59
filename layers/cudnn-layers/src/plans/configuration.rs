//! What an engine configuration is, as cuDNN states it: the engine, its knobs, and whether it compiles code.

use cudnn_sys::types::{cudnnBackendBehaviorNote_t as Note, cudnnBackendKnobType_t as Knob, cudnnStatus_t as Status};

use super::cudnn::{Cudnn, Descriptor, read};
use crate::shadow::canonical::Bytes;
use crate::shadow::elements::{Kind, Name, Raw, Type};

/// More than cuDNN has of each: 13 notes and 59 knobs in 9.28.
const MAX_NOTES: usize = 64;
const MAX_KNOBS: usize = 128;

/// What cuDNN answers is not what it is known to answer.
const UNCLEAR: Status = Status::CUDNN_STATUS_INTERNAL_ERROR;

/// An engine and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    engine: i64,
    /// Multiprocessors to use, if they were limited.
    multiprocessors: Option<i32>,
    /// By the knobs' numbers.
    knobs: Vec<(u32, i64)>,
}

impl Configuration {
    /// Reads the configuration of a program. `Ok(None)` for an engine that compiles nothing: its plans are built faster
    /// than they are read.
    ///
    /// # Safety
    /// A finalized configuration that is alive.
    ///
    /// # Errors
    /// If cuDNN does not state a part of it.
    pub(super) unsafe fn read(cudnn: &Cudnn, configuration: Raw) -> Result<Option<Self>, Status> {
        let engine = cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, |engine| {
            let mut to = [engine.raw()];
            let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
            // SAFETY: the caller's obligation; cuDNN fills the descriptor.
            if unsafe { read(cudnn, configuration, name, ty, &mut to) }? != 1 {
                return Err(UNCLEAR);
            }
            let mut notes = [Note::default(); MAX_NOTES];
            let (name, ty) = (Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE);
            let count = engine.read(name, ty, &mut notes)?;
            if !notes.get(..count).ok_or(UNCLEAR)?.contains(&Note::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) {
                return Ok(None);
            }
            let mut index = [0_i64];
            if engine.read(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &mut index)? != 1 {
                return Err(UNCLEAR);
            }
            let mut limit = [0_i32];
            let limits = engine.read(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32, &mut limit);
            let ([index], [limit]) = (index, limit);
            Ok(Some((index, (limits == Ok(1)).then_some(limit))))
        })?;
        let Some((engine, multiprocessors)) = engine else { return Ok(None) };
        // SAFETY: the caller's obligation.
        let knobs = unsafe { knobs(cudnn, configuration) }?;
        Ok(Some(Configuration { engine, multiprocessors, knobs }))
    }

    pub(super) fn engine(&self) -> i64 {
        self.engine
    }

    pub(super) fn write(&self, to: &mut Bytes) {
        to.signed(self.engine);
        to.signed(self.multiprocessors.map_or(-1, i64::from));
        to.number(self.knobs.len() as u32);
        for (knob, value) in &self.knobs {
            to.number(*knob);
            to.signed(*value);
        }
    }
}

/// # Safety
/// As for [`Configuration::read`].
unsafe fn knobs(cudnn: &Cudnn, configuration: Raw) -> Result<Vec<(u32, i64)>, Status> {
    // cuDNN fills descriptors, and does not say before how many.
    cudnn.with_descriptors(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, MAX_KNOBS, |choices| {
        let mut raw: Vec<Raw> = choices.iter().map(Descriptor::raw).collect();
        let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        // SAFETY: the caller's obligation.
        let count = unsafe { read(cudnn, configuration, name, ty, &mut raw) }?;
        if count >= MAX_KNOBS {
            return Err(UNCLEAR);
        }
        let mut knobs = Vec::with_capacity(count);
        for choice in choices.iter().take(count) {
            let (mut knob, mut value) = ([Knob::default()], [0_i64]);
            let counts = (
                choice.read(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, &mut knob),
                choice.read(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, &mut value),
            );
            if counts != (Ok(1), Ok(1)) {
                return Err(UNCLEAR);
            }
            let ([knob], [value]) = (knob, value);
            knobs.push((i64::from(knob.0) as u32, value));
        }
        knobs.sort_unstable();
        Ok(knobs)
    })
}
