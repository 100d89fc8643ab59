//! Tries the engines of a graph one by one, and records why they fail.

use std::path::Path;
use std::time::Instant;

use cudnn_layer_api::Host;
use cudnn_os::libraries::{self, Library};
use cudnn_os::windows_or;
use cudnn_sys::types::{cudnnBackendHeurMode_t as Mode, cudnnStatus_t as Status};

use super::messages::Messages;
use super::reason::Reason;
use crate::cudnn::{Cudnn, Descriptor};
use crate::shadow::elements::{Kind, Name, Raw, Type};

const MAX_ENGINES: i64 = 1000;

#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub(super) graph: Raw,
    /// The device, unless the graph contains a handle.
    pub(super) device: Option<Raw>,
}

impl Planned {
    fn set_device(&self, descriptor: &Descriptor<'_>, name: Name) -> Result<(), Status> {
        let Some(device) = self.device else { return Ok(()) };
        descriptor.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[device])
    }
}

pub(super) struct TriedEngine {
    pub(super) engine: i64,
    pub(super) has_accepted: bool,
    /// `None` if a plan was built.
    pub(super) failure: Option<Reason>,
}

#[derive(Default)]
pub(super) struct TriedEngines {
    pub(super) tried: Vec<TriedEngine>,
    /// The number of engines that were not tried before the deadline.
    pub(super) untried: i64,
}

/// Tries all engines of a graph until the deadline.
///
/// # Safety
/// The graph and the device are finalized and live.
pub(super) unsafe fn try_all(
    cudnn: &Cudnn,
    messages: &Messages,
    planned: Planned,
    deadline: Instant,
) -> Result<TriedEngines, Status> {
    let name = Name::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
    // SAFETY: guaranteed by the caller.
    let graph = unsafe { cudnn.descriptor(planned.graph) };
    let count: i64 = graph.single(name, Type::CUDNN_TYPE_INT64)?;
    let mut candidates = TriedEngines::default();
    for engine in 0..count.clamp(0, MAX_ENGINES) {
        if Instant::now() > deadline {
            candidates.untried = count - engine;
            break;
        }
        messages.take();
        cudnn.take_last_error();
        let mut has_accepted = false;
        let built = with_default_configuration(cudnn, planned, engine, |configuration| {
            has_accepted = true;
            build_plan(cudnn, planned, configuration.raw())
        });
        let failure = built.err().map(|status| failure(cudnn, messages, status));
        candidates.tried.push(TriedEngine { engine, has_accepted, failure });
    }
    Ok(candidates)
}

/// Returns the reason for the failure of the last call.
fn failure(cudnn: &Cudnn, messages: &Messages, status: Status) -> Reason {
    let last_error = cudnn.take_last_error();
    Reason::new(status, &messages.take(), &String::from_utf8_lossy(&last_error))
}

fn with_default_configuration<T>(
    cudnn: &Cudnn,
    planned: Planned,
    index: i64,
    work: impl FnOnce(&Descriptor<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, |engine| {
        let descriptor = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        engine.set(Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, descriptor, &[planned.graph])?;
        engine.set(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &[index])?;
        planned.set_device(engine, Name::CUDNN_ATTR_ENGINE_DEVICEPROP)?;
        engine.finalize()?;
        cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, |configuration| {
            configuration.set(Name::CUDNN_ATTR_ENGINECFG_ENGINE, descriptor, &[engine.raw()])?;
            configuration.finalize()?;
            work(configuration)
        })
    })
}

fn build_plan(cudnn: &Cudnn, planned: Planned, configuration: Raw) -> Result<(), Status> {
    cudnn.with_descriptor(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, |plan| {
        let descriptor = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, &[configuration])?;
        planned.set_device(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)?;
        plan.finalize()
    })
}

/// The heuristics modes, in the order of frameworks.
const MODES: [Mode; 2] = [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK];
const MAX_PLANS: usize = 3;

/// Returns whether one of the heuristics' first proposals leads to a plan.
pub(super) fn has_plan(cudnn: &Cudnn, planned: Planned, deadline: Instant) -> bool {
    MODES.into_iter().any(|mode| {
        let built = cudnn.with_descriptor(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, |heuristics| {
            let descriptor = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
            heuristics.set(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, descriptor, &[planned.graph])?;
            heuristics.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[mode])?;
            planned.set_device(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)?;
            heuristics.finalize()?;
            let results = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
            let count = heuristics.read::<Raw>(results, descriptor, &mut [])?;
            if count == 0 || Instant::now() > deadline {
                return Ok(false);
            }
            let kind = Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
            heuristics.with_children(results, kind, count.min(MAX_PLANS), |proposals| {
                let has_plan = |proposal: &Descriptor<'_>| build_plan(cudnn, planned, proposal.raw()).is_ok();
                Ok(proposals.iter().any(|proposal| Instant::now() < deadline && has_plan(proposal)))
            })
        });
        built == Ok(true)
    })
}

pub(super) fn nvrtc(cudnn: &Cudnn) -> &'static str {
    const NVRTC_12: &str = windows_or!("nvrtc64_120_0.dll", "libnvrtc.so.12");
    const NVRTC_13: &str = windows_or!("nvrtc64_130_0.dll", "libnvrtc.so.13");
    if is_cuda_13(cudnn) { NVRTC_13 } else { NVRTC_12 }
}

fn is_cuda_13(cudnn: &Cudnn) -> bool {
    // SAFETY: the call passes no pointers.
    cudnn.cudnnGetCudartVersion().is_some_and(|version| unsafe { version() } >= 13_000)
}

/// Returns the name of a missing library that is necessary to try all engines. cuDNN terminates the process if its
/// precompiled engines cannot load cuBLASLt.
pub(super) fn missing_cublas_lt(cudnn: &Cudnn, host: Host) -> Option<&'static str> {
    const PRECOMPILED: &str = windows_or!("cudnn_engines_precompiled64_9.dll", "libcudnn_engines_precompiled.so.9");
    const CUBLAS_LT_12: &str = windows_or!("cublasLt64_12.dll", "libcublasLt.so.12");
    const CUBLAS_LT_13: &str = windows_or!("cublasLt64_13.dll", "libcublasLt.so.13");
    let name = if is_cuda_13(cudnn) { CUBLAS_LT_13 } else { CUBLAS_LT_12 };
    (libraries::is_loaded(Path::new(PRECOMPILED)) && !is_available(name, host)).then_some(name)
}

pub(super) fn is_available(name: &str, host: Host) -> bool {
    /// The directories in which cuDNN's wheels search, relative to cuDNN's directory.
    const DIRS: [&str; 7] = [
        ".",
        "../../cublas/lib",
        "../../cuda_nvrtc/lib",
        "../../cu13/lib",
        "../../cublas/bin",
        "../../cuda_nvrtc/bin",
        "../../cu13/bin/x86_64",
    ];
    let cudnn_dir = Path::new(host.cudnn_dir().to_str().unwrap_or_default());
    let has_content = |dir: &str| cudnn_dir.join(dir).join(name).metadata().is_ok_and(|file| file.len() > 0);
    // SAFETY: cuDNN loads the same library by the same name.
    let can_open = || unsafe { Library::open(Path::new(name)) }.is_ok();
    libraries::is_loaded(Path::new(name)) || DIRS.into_iter().any(has_content) || can_open()
}
