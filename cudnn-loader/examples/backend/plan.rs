//! From a graph to a plan: configurations of engines, proposed by heuristics or put together by hand, and what can be
//! learnt of each before it runs.

use std::ffi::c_void;
use std::marker::PhantomData;

use crate::backend::descriptor::{Descriptor, Handle};
use crate::backend::gpu::Memory;
use crate::cudnn::{
    self, Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendBehaviorNote_t as BehaviorNote,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as KnobKind,
    cudnnBackendNumericalNote_t as NumericalNote,
};

/// What a plan is for.
#[derive(Clone, Copy)]
pub(crate) enum For<'a> {
    /// The device of a handle, to run there.
    Handle(&'a Handle),
    /// A device that is described and need not be here: see [`described`].
    Device(&'a Descriptor),
}

/// The description of this handle's device, in JSON: as cuDNN wants it from those who have no such device (since 9.8).
pub(crate) fn description(handle: &Handle) -> Result<String, Error> {
    let device = Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_HANDLE, &[handle.raw()])?
        .finalize()?;
    let json = device.get(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0u8)?;
    Ok(String::from_utf8_lossy(&json).trim_end_matches('\0').to_owned())
}

/// A device, by its description in JSON (since cuDNN 9.8).
pub(crate) fn described(json: &str) -> Result<Descriptor, Error> {
    Descriptor::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json.as_bytes())?
        .finalize()
}

/// The configurations that the heuristics propose, best first.
pub(crate) fn proposed(graph: &Descriptor, mode: Mode, what_for: For<'_>) -> Result<Vec<Descriptor>, Error> {
    let heuristics = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?;
    let heuristics = match what_for {
        For::Handle(_) => heuristics,
        For::Device(device) => heuristics.parts(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[device])?,
    };
    heuristics.finalize()?.descriptors(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
}

/// How many engines there are; few of them take a given graph.
pub(crate) fn engine_count(graph: &Descriptor) -> Result<i64, Error> {
    graph.number(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)
}

/// One engine, by its number; an error where it does not take the graph.
pub(crate) fn engine(graph: &Descriptor, index: i64, what_for: For<'_>) -> Result<Descriptor, Error> {
    let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?;
    match what_for {
        For::Handle(_) => engine.finalize(),
        For::Device(device) => engine.parts(Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &[device])?.finalize(),
    }
}

/// May every engine be asked? Full releases have engines that use cuBLASLt, and end the process where it cannot be loaded.
pub(crate) fn engines_can_be_walked() -> bool {
    // SAFETY: cuDNN would open it too.
    let has = |name: &str| unsafe { libloading::Library::new(name) }.is_ok();
    // SAFETY: the function takes nothing.
    let is_for_cuda_13 = unsafe { cudnn::cudnnGetCudartVersion() } >= 13_000;
    has(if is_for_cuda_13 { "libcublasLt.so.13" } else { "libcublasLt.so.12" })
}

/// What can be turned on an engine, and between what.
#[derive(Clone, Copy)]
pub(crate) struct Knob {
    pub(crate) kind: KnobKind,
    pub(crate) least: i64,
    pub(crate) most: i64,
    pub(crate) step: i64,
}

impl Knob {
    pub(crate) fn values(&self) -> impl Iterator<Item = i64> {
        (self.least..=self.most).step_by(usize::try_from(self.step).unwrap_or(1).max(1))
    }
}

pub(crate) fn knobs(engine: &Descriptor) -> Result<Vec<Knob>, Error> {
    let read = |info: &Descriptor| {
        Ok(Knob {
            kind: info.get(Name::CUDNN_ATTR_KNOB_INFO_TYPE, KnobKind(0))?.first().copied().unwrap_or(KnobKind(0)),
            least: info.number(Name::CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE)?,
            most: info.number(Name::CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE)?,
            step: info.number(Name::CUDNN_ATTR_KNOB_INFO_STRIDE)?,
        })
    };
    let infos = engine.descriptors(Name::CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR)?;
    infos.iter().map(read).collect()
}

/// An engine with these knobs turned, and the others as they are.
pub(crate) fn configuration(engine: &Descriptor, choices: &[(KnobKind, i64)]) -> Result<Descriptor, Error> {
    let choice = |(kind, value): &(KnobKind, i64)| {
        Descriptor::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[*kind])?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[*value])?
            .finalize()
    };
    let choices = choices.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
    let configuration = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?
        .parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine])?;
    match choices.is_empty() {
        true => configuration.finalize(),
        false => {
            let choices: Vec<&Descriptor> = choices.iter().collect();
            configuration.parts(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices)?.finalize()
        }
    }
}

/// More than there are kinds of knobs.
const MAX_KNOBS: usize = 64;

/// What a configuration is, in words.
pub(crate) struct About {
    pub(crate) engine: i64,
    pub(crate) knobs: Vec<(KnobKind, i64)>,
    pub(crate) numerical: Vec<NumericalNote>,
    pub(crate) behavior: Vec<BehaviorNote>,
}

pub(crate) fn about(configuration: &Descriptor) -> Result<About, Error> {
    let engines =
        configuration.descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
    let choices = configuration.descriptors_at_most(
        Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        MAX_KNOBS,
    )?;
    let read = |choice: &Descriptor| {
        let kind = choice.get(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, KnobKind(0))?;
        Ok((kind.first().copied().unwrap_or(KnobKind(0)), choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?))
    };
    let mut about = About {
        engine: -1,
        knobs: choices.iter().map(read).collect::<Result<_, Error>>()?,
        numerical: Vec::new(),
        behavior: Vec::new(),
    };
    if let Some(engine) = engines.first() {
        about.engine = engine.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
        about.numerical = engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, NumericalNote(0)).unwrap_or_default();
        about.behavior = engine.get(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, BehaviorNote(0)).unwrap_or_default();
    }
    Ok(about)
}

impl About {
    /// Engine, knobs and notes, each as short as it can be told: `eng 12 {TILE_SIZE=3}`, `TENSOR_CORE`.
    pub(crate) fn words(&self) -> (String, String) {
        let short = |text: String, prefix: &str| {
            let name = text.split(' ').next().unwrap_or_default();
            name.strip_prefix(prefix).unwrap_or(name).to_owned()
        };
        let knobs: Vec<String> = self
            .knobs
            .iter()
            .map(|(kind, value)| format!("{}={value}", short(format!("{kind:?}"), "CUDNN_KNOB_TYPE_")))
            .collect();
        let numerical = self.numerical.iter().map(|note| short(format!("{note:?}"), "CUDNN_NUMERICAL_NOTE_"));
        let behavior = self.behavior.iter().map(|note| short(format!("{note:?}"), "CUDNN_BEHAVIOR_NOTE_"));
        let notes: Vec<String> = numerical.chain(behavior).collect();
        (format!("engine {} {{{}}}", self.engine, knobs.join(" ")), notes.join(" "))
    }
}

/// A configuration made ready, its kernels chosen or compiled.
pub(crate) struct Plan {
    pub(crate) descriptor: Descriptor,
    /// What it needs beside the tensors, in bytes.
    pub(crate) workspace: usize,
}

impl Plan {
    pub(crate) fn new(configuration: &Descriptor, what_for: For<'_>) -> Result<Plan, Error> {
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .parts(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
        let descriptor = match what_for {
            For::Handle(handle) => plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[handle.raw()])?.finalize()?,
            For::Device(device) => plan.parts(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?.finalize()?,
        };
        let workspace = descriptor.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Plan { descriptor, workspace: usize::try_from(workspace).unwrap_or(0) })
    }

    /// The first of the heuristics' proposals that can be made ready; or of all engines, where there are no heuristics, as in
    /// a JIT-only release.
    pub(crate) fn first(graph: &Descriptor, handle: &Handle) -> Result<Plan, super::Failure> {
        let what_for = For::Handle(handle);
        let mut proposals = proposed(graph, Mode::CUDNN_HEUR_MODE_A, what_for).unwrap_or_default();
        proposals.extend(proposed(graph, Mode::CUDNN_HEUR_MODE_FALLBACK, what_for).unwrap_or_default());
        if proposals.is_empty() && engines_can_be_walked() {
            let taking = (0..engine_count(graph)?).filter_map(|index| engine(graph, index, what_for).ok());
            proposals.extend(taking.filter_map(|engine| configuration(&engine, &[]).ok()));
        }
        let mut last = None;
        for proposal in &proposals {
            match Plan::new(proposal, what_for) {
                Ok(plan) => return Ok(plan),
                Err(error) => last = Some(error),
            }
        }
        Err(last
            .map_or("no engine takes this graph".into(), |error| format!("no engine takes this graph: {error}").into()))
    }

    /// The first of the proposals, of the heuristics' and as a fallback, that is as one wants it.
    pub(crate) fn first_that(graph: &Descriptor, handle: &Handle, is_wanted: fn(&Plan) -> bool) -> Option<Plan> {
        let what_for = For::Handle(handle);
        let modes = [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK];
        let proposals = modes.into_iter().flat_map(|mode| proposed(graph, mode, what_for).unwrap_or_default());
        proposals.filter_map(|proposal| Plan::new(&proposal, what_for).ok()).find(is_wanted)
    }

    /// Puts the plan on the handle's stream, and comes back before it has run.
    ///
    /// # Safety
    /// Each memory of the pack is as large as its tensor, and the workspace as the plan's; the handle is the plan's. Memory may
    /// go at once: it is freed on the same stream, the default one, behind what is queued there. With another stream
    /// (`cudnnSetStream`) one has to wait for it first.
    pub(crate) unsafe fn execute(&self, handle: &Handle, pack: &Pack<'_>) -> Result<(), Error> {
        // SAFETY: plan and pack are finalised and live; the rest is the caller's obligation.
        unsafe { check!(cudnn::cudnnBackendExecute(handle.raw(), self.descriptor.raw(), pack.descriptor.raw())) }
    }
}

/// The memory to run with: some for each id that is not virtual, of its tensor's size, and the workspace.
pub(crate) struct Pack<'a> {
    descriptor: Descriptor,
    memory: PhantomData<&'a Memory>,
}

impl<'a> Pack<'a> {
    pub(crate) fn new(tensors: &[(i64, &'a Memory)], workspace: &'a Memory) -> Result<Self, Error> {
        let uids: Vec<i64> = tensors.iter().map(|(uid, _)| *uid).collect();
        let pointers: Vec<*const c_void> = tensors.iter().map(|(_, memory)| memory.address()).collect();
        let descriptor = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &uids)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &pointers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[workspace.address()])?
            .finalize()?;
        Ok(Pack { descriptor, memory: PhantomData })
    }
}
