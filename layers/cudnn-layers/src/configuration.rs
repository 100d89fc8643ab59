//! Reads an engine configuration from cuDNN: the engine, the knobs, and whether it compiles code.

use cudnn_sys::types::{
    cudnnBackendBehaviorNote_t as Note, cudnnBackendKnobType_t as Knob, cudnnBackendNumericalNote_t as NumericalNote,
    cudnnStatus_t as Status,
};

use crate::cudnn::{Cudnn, Descriptor, read};
use crate::shadow::canonical::Bytes;
use crate::shadow::elements::{Kind, Name, Raw, Type};

/// More than cuDNN provides: 9.28 has 13 notes of each kind and 59 knobs.
const MAX_NOTES: usize = 64;
const MAX_KNOBS: usize = 128;

/// cuDNN returned an unexpected answer.
const UNCLEAR: Status = Status::CUDNN_STATUS_INTERNAL_ERROR;

/// An engine with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    engine: i64,
    /// The maximum number of multiprocessors, if limited.
    multiprocessors: Option<i32>,
    /// Whether the engine compiles code to finalize a plan.
    compiles_code: bool,
    numerical_notes: Vec<NumericalNote>,
    /// Knob types and values, sorted by type.
    knobs: Vec<(u32, i64)>,
}

impl Configuration {
    /// Reads a configuration of the program.
    ///
    /// # Safety
    /// The configuration is finalized and live.
    ///
    /// # Errors
    /// Returns the status if cuDNN does not report a part of the configuration.
    pub(crate) unsafe fn read(cudnn: &Cudnn, configuration: Raw) -> Result<Self, Status> {
        let (engine, multiprocessors, compiles_code, numerical_notes) =
            cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, |engine| {
                let mut to = [engine.raw()];
                let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
                // SAFETY: guaranteed by the caller; cuDNN fills the descriptor.
                if unsafe { read(cudnn, configuration, name, ty, &mut to) }? != 1 {
                    return Err(UNCLEAR);
                }
                let mut notes = [Note::default(); MAX_NOTES];
                let (name, ty) = (Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, Type::CUDNN_TYPE_BEHAVIOR_NOTE);
                let count = engine.read(name, ty, &mut notes)?;
                let notes = notes.get(..count).ok_or(UNCLEAR)?;
                let compiles_code = notes.contains(&Note::CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
                let mut numerical = [NumericalNote::default(); MAX_NOTES];
                let (name, ty) = (Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE);
                let count = engine.read(name, ty, &mut numerical)?;
                let numerical_notes = numerical.get(..count).ok_or(UNCLEAR)?.to_vec();
                let mut index = [0_i64];
                if engine.read(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &mut index)? != 1 {
                    return Err(UNCLEAR);
                }
                let mut limit = [0_i32];
                let limits = engine.read(Name::CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, Type::CUDNN_TYPE_INT32, &mut limit);
                let ([index], [limit]) = (index, limit);
                Ok((index, (limits == Ok(1)).then_some(limit), compiles_code, numerical_notes))
            })?;
        // SAFETY: guaranteed by the caller.
        let knobs = unsafe { knobs(cudnn, configuration) }?;
        Ok(Configuration { engine, multiprocessors, compiles_code, numerical_notes, knobs })
    }

    /// Returns the index of the engine.
    pub(crate) fn engine(&self) -> i64 {
        self.engine
    }

    /// Returns the types and values of the knobs, sorted by type.
    pub(crate) fn knobs(&self) -> &[(u32, i64)] {
        &self.knobs
    }

    /// Returns the engine's notes about its arithmetic.
    pub(crate) fn numerical_notes(&self) -> &[NumericalNote] {
        &self.numerical_notes
    }

    /// Returns whether the engine compiles code. Other plans are built faster than they are restored.
    pub(crate) fn compiles_code(&self) -> bool {
        self.compiles_code
    }

    pub(crate) fn write(&self, to: &mut Bytes) {
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
/// The same requirements as for [`Configuration::read`].
unsafe fn knobs(cudnn: &Cudnn, configuration: Raw) -> Result<Vec<(u32, i64)>, Status> {
    // cuDNN fills existing descriptors and does not report the required number first.
    cudnn.with_descriptors(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, MAX_KNOBS, |choices| {
        let mut raw: Vec<Raw> = choices.iter().map(Descriptor::raw).collect();
        let (name, ty) = (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        // SAFETY: guaranteed by the caller.
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
