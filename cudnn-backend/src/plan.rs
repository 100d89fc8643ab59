//! Provides execution plans, and chooses a plan for a graph.

use std::fmt;

use crate::cudnn::{
    Error, cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
};

use crate::descriptor::Descriptor;
use crate::device::Target;
use crate::engine::{can_try_every_engine, configuration, proposals, supporting_engines};

/// An execution plan.
pub struct Plan {
    /// cuDNN's finalized descriptor of the plan.
    pub descriptor: Descriptor,
    /// The required workspace, in bytes.
    pub workspace_size: usize,
}

/// The source of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The heuristics, mode A.
    ModeA,
    /// The heuristics, fallback mode.
    Fallback,
    /// Every engine in turn, with default knobs.
    EveryEngine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::ModeA => "proposed by heuristics, mode A",
            Source::Fallback => "proposed by heuristics, fallback mode",
            Source::EveryEngine => "found by trying every engine",
        })
    }
}

/// The first plan that could be made for a graph.
pub struct FirstPlan {
    /// The plan.
    pub plan: Plan,
    /// The source of the configuration.
    pub source: Source,
    /// The configuration's index within the source.
    pub index: usize,
    /// The number of configurations from the source.
    pub count: usize,
}

/// The error if no plan works for a graph.
#[derive(Debug)]
pub struct NoPlan {
    /// cuDNN's errors, one per failed source or configuration.
    pub errors: Vec<Error>,
    /// Whether engines were skipped because cuDNN would abort the process: see [`can_try_every_engine`].
    pub skipped_engines: bool,
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no engine supports this graph")?;
        if self.skipped_engines {
            f.write_str(" (engines that the heuristics do not propose were not tried: cuBLASLt cannot be loaded)")?;
        }
        match self.errors.last() {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NoPlan {}

impl Plan {
    /// Makes a configuration ready to run. cuDNN selects kernels, and compiles some.
    ///
    /// # Errors
    /// Returns an error if the configuration does not work on this device.
    #[allow(deprecated, reason = "cuDNN 9.0 to 9.7 have no device property, which replaces the handle")]
    pub fn new(configuration: &Descriptor, target: Target<'_>) -> Result<Plan, Error> {
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
        let descriptor = match target {
            Target::Handle(handle) => plan.set_handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)?,
            Target::Device(device) => plan.set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?,
        };
        let descriptor = descriptor.finalize()?;
        let workspace_size = descriptor.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        Ok(Plan { descriptor, workspace_size: usize::try_from(workspace_size).unwrap_or(0) })
    }

    /// Returns the first plan that works, from the heuristics' proposals, or otherwise from every engine. A JIT-only
    /// release has no heuristics.
    ///
    /// # Errors
    /// Returns an error if no configuration works.
    pub fn first(graph: &Descriptor, target: Target<'_>) -> Result<FirstPlan, NoPlan> {
        let mut no_plan = NoPlan { errors: Vec::new(), skipped_engines: false };
        for source in [Source::ModeA, Source::Fallback, Source::EveryEngine] {
            if source == Source::EveryEngine && !can_try_every_engine() {
                no_plan.skipped_engines = true;
                continue;
            }
            let configurations = configurations(graph, source, target).unwrap_or_else(|error| {
                no_plan.errors.push(error);
                Vec::new()
            });
            for (index, configuration) in configurations.iter().enumerate() {
                match Plan::new(configuration, target) {
                    Ok(plan) => return Ok(FirstPlan { plan, source, index, count: configurations.len() }),
                    Err(error) => no_plan.errors.push(error),
                }
            }
        }
        Err(no_plan)
    }
}

fn configurations(graph: &Descriptor, source: Source, target: Target<'_>) -> Result<Vec<Descriptor>, Error> {
    match source {
        Source::ModeA => proposals(graph, Mode::CUDNN_HEUR_MODE_A, target),
        Source::Fallback => proposals(graph, Mode::CUDNN_HEUR_MODE_FALLBACK, target),
        Source::EveryEngine => {
            Ok(supporting_engines(graph, target)?.filter_map(|engine| configuration(&engine, &[]).ok()).collect())
        }
    }
}
