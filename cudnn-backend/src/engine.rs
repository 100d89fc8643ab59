//! Provides engines and their configurations: the heuristics' proposals, your own combinations, and their properties.

use crate::cudnn::{
    self, Error, cudnnBackendAttributeName_t as Name, cudnnBackendBehaviorNote_t as BehaviorNote,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode, cudnnBackendKnobType_t as KnobType,
    cudnnBackendNumericalNote_t as NumericalNote,
};

use crate::descriptor::Descriptor;
use crate::device::Target;
use crate::platform;

/// Returns the heuristics' proposals, best first. JIT-only releases have no heuristics, and return an empty list.
///
/// cuDNN configures all proposed engines. It aborts the process if one of them uses cuBLASLt, which cannot be loaded.
///
/// # Errors
/// Returns an error if cuDNN rejects the graph or the target.
pub fn proposals(graph: &Descriptor, mode: Mode, target: Target<'_>) -> Result<Vec<Descriptor>, Error> {
    let heuristics = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?;
    match target {
        Target::Handle(_) => heuristics,
        Target::Device(device) => heuristics.set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[device])?,
    }
    .finalize()?
    .descriptors(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
}

/// Returns the engine with this index.
///
/// # Errors
/// Returns an error if the engine does not support the graph.
pub fn engine(graph: &Descriptor, index: i64, target: Target<'_>) -> Result<Descriptor, Error> {
    let engine = Descriptor::new(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph])?
        .set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?;
    match target {
        Target::Handle(_) => engine.finalize(),
        Target::Device(device) => engine.set_descriptors(Name::CUDNN_ATTR_ENGINE_DEVICEPROP, &[device])?.finalize(),
    }
}

/// Returns every engine that supports the graph. Call [`can_try_every_engine`] first.
///
/// # Errors
/// Returns an error if the graph is not finalized.
pub fn supporting_engines<'a>(
    graph: &'a Descriptor,
    target: Target<'a>,
) -> Result<impl Iterator<Item = Descriptor> + 'a, Error> {
    let count = graph.number(Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)?;
    // Skip engines that reject the graph, because most engines support other graphs.
    Ok((0..count).filter_map(move |index| engine(graph, index, target).ok()))
}

/// Returns whether every engine can be tried. The precompiled engines of full releases use cuBLASLt, and cuDNN aborts
/// the process if cuBLASLt cannot be loaded.
pub fn can_try_every_engine() -> bool {
    let is_jit_only = !platform::is_loaded(platform::ENGINES_PRECOMPILED);
    is_jit_only || can_load_cublas_lt()
}

/// Returns whether cuBLASLt for cuDNN's CUDA major version can be loaded.
pub fn can_load_cublas_lt() -> bool {
    // SAFETY: the call passes no pointers.
    let is_cuda_13 = unsafe { cudnn::cudnnGetCudartVersion() } >= 13_000;
    platform::can_load(if is_cuda_13 { platform::CUBLAS_LT_13 } else { platform::CUBLAS_LT_12 })
}

/// A knob of an engine, with the allowed range.
#[derive(Clone, Copy)]
pub struct Knob {
    /// The type of the knob.
    pub ty: KnobType,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    /// The distance between two values.
    pub step: i64,
}

impl Knob {
    /// Returns every value of the range.
    pub fn values(&self) -> impl Iterator<Item = i64> + use<> {
        (self.min..=self.max).step_by(usize::try_from(self.step).unwrap_or(1).max(1))
    }
}

/// Returns the knobs of an engine.
///
/// # Errors
/// Returns an error if the engine is not finalized.
pub fn knobs(engine: &Descriptor) -> Result<Vec<Knob>, Error> {
    let read = |info: &Descriptor| {
        Ok(Knob {
            ty: info.get(Name::CUDNN_ATTR_KNOB_INFO_TYPE, KnobType(0))?.first().copied().unwrap_or(KnobType(0)),
            min: info.number(Name::CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE)?,
            max: info.number(Name::CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE)?,
            step: info.number(Name::CUDNN_ATTR_KNOB_INFO_STRIDE)?,
        })
    };
    let infos = engine.descriptors(Name::CUDNN_ATTR_ENGINE_KNOB_INFO, Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR)?;
    infos.iter().map(read).collect()
}

/// Returns a configuration of an engine with these values for some knobs, and defaults for the others.
///
/// # Errors
/// Returns an error if the engine rejects a value, or cannot be configured.
pub fn configuration(engine: &Descriptor, choices: &[(KnobType, i64)]) -> Result<Descriptor, Error> {
    let choice = |(ty, value): &(KnobType, i64)| {
        Descriptor::new(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, &[*ty])?
            .set(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[*value])?
            .finalize()
    };
    let choices = choices.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
    let configuration = Descriptor::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine])?;
    if choices.is_empty() {
        configuration.finalize()
    } else {
        let choices: Vec<&Descriptor> = choices.iter().collect();
        configuration.set_descriptors(Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices)?.finalize()
    }
}

/// An upper limit for the number of knob types.
const MAX_KNOBS: usize = 64;

/// The properties of a configuration that cuDNN reports.
pub struct ConfigurationInfo {
    /// The engine's index, or -1 if the configuration contains no engine.
    pub engine: i64,
    /// The chosen knobs.
    pub knobs: Vec<(KnobType, i64)>,
    /// The engine's numerical notes.
    pub numerical: Vec<NumericalNote>,
    /// The engine's behavior notes.
    pub behavior: Vec<BehaviorNote>,
}

impl ConfigurationInfo {
    /// Reads the properties of a configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is not finalized.
    pub fn new(configuration: &Descriptor) -> Result<Self, Error> {
        let engines =
            configuration.descriptors(Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        let choices = configuration.descriptors_up_to(
            Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
            Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
            MAX_KNOBS,
        )?;
        let read = |choice: &Descriptor| {
            let ty = choice.get(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, KnobType(0))?;
            Ok((ty.first().copied().unwrap_or(KnobType(0)), choice.number(Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)?))
        };
        let mut info = ConfigurationInfo {
            engine: -1,
            knobs: choices.iter().map(read).collect::<Result<_, Error>>()?,
            numerical: Vec::new(),
            behavior: Vec::new(),
        };
        if let Some(engine) = engines.first() {
            info.engine = engine.number(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
            info.numerical = engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, NumericalNote(0)).unwrap_or_default();
            info.behavior = engine.get(Name::CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, BehaviorNote(0)).unwrap_or_default();
        }
        Ok(info)
    }

    /// Formats the engine and the knobs: `engine 12 {TILE_SIZE=3}`.
    pub fn engine_text(&self) -> String {
        let knobs = self.knobs.iter().map(|(ty, value)| format!("{}={value}", short_name(ty, "CUDNN_KNOB_TYPE_")));
        format!("engine {} {{{}}}", self.engine, knobs.collect::<Vec<_>>().join(" "))
    }

    /// Formats the notes without their common prefixes: `TENSOR_CORE RUNTIME_COMPILATION`.
    pub fn notes_text(&self) -> String {
        let numerical = self.numerical.iter().map(|note| short_name(note, "CUDNN_NUMERICAL_NOTE_"));
        let behavior = self.behavior.iter().map(|note| short_name(note, "CUDNN_BEHAVIOR_NOTE_"));
        numerical.chain(behavior).collect::<Vec<_>>().join(" ")
    }
}

/// Returns a constant's name without the prefix and the value.
fn short_name(constant: &impl std::fmt::Debug, prefix: &str) -> String {
    let text = format!("{constant:?}");
    let name = text.split(' ').next().unwrap_or_default();
    name.strip_prefix(prefix).unwrap_or(name).to_owned()
}
