//! The layer `explain`, which reports why a graph has no engine, and which engine a program uses.
//!
//! The layer follows each graph of the backend API. When a program gives up on a graph, the layer tries all engines one
//! by one with its own callback, and groups the reasons. If the heuristics returned no engines, it also searches for a
//! small change that makes the graph supported.
//!
//! | module | purpose |
//! | --- | --- |
//! | `attempts` | follows graphs and plans, and decides which ones are reported |
//! | `investigation` | runs the layer's own attempts |
//! | `candidates` | tries the engines of a graph |
//! | `variants` | changes one property of a graph |
//! | `messages` | receives cuDNN's messages, and hides them from the program |
//! | `reason` | finds the reason of a failure in the messages |
//! | `drawing`, `report` | format the reports |
//! | `options` | the options from the environment or the program |

mod attempts;
mod candidates;
mod drawing;
mod investigation;
mod messages;
mod options;
mod reason;
mod report;
mod variants;

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::exit::call_at_exit;
use cudnn_os::text_file::TextFile;
use cudnn_sys::types::{cudnnCallback_t, cudnnStatus_t};

use self::attempts::Attempt;
use self::messages::Callback;
use crate::active::Active;
use crate::cudnn::{Cudnn, Descriptor};
use crate::engine::ChosenEngine;
use crate::fork::{AtFork, Rank};
use crate::last_error::own_calls;
use crate::program_memory::accepted_words;
use crate::report::{open, save_working_dir};
use crate::shadow::calls::HeuristicsQuery;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::shadow::{self, calls};
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};
use crate::{driver, follow, serialized};

pub use self::options::{OUTPUT_VARIABLE, Options, VARIABLE, configure};
pub use crate::report::Destination;

/// Reports graphs that no engine supports, and the engines that a program uses.
#[derive(Debug)]
pub struct Explain(());

struct State {
    host: Host,
    cudnn: Cudnn,
    output: TextFile,
    is_used_shown: bool,
}

static STATE: Active<State> = Active::new();
static NEXT: Next = Next::new();

impl Layer for Explain {
    fn begin(host: Host) -> Result<Self, String> {
        let options = Options::chosen()?;
        save_working_dir();
        let output = open(&options.output)?;
        let state = State { host, cudnn: Cudnn::new(host), output, is_used_shown: options.used };
        STATE.begin("explain", state, Rank::Explain, &AT_FORK)?;
        call_at_exit(at_exit);
        Ok(Explain(()))
    }

    fn check() -> Result<(), String> {
        Options::chosen()?.output.check()
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        let is_followed = Id::from_name(next.name().to_bytes()).is_some_and(is_followed);
        if is_followed { intercept::<Explain>(next) } else { next }
    }
}

static AT_FORK: &[AtFork] = &[
    AtFork::Emptied(&attempts::STATE),
    AtFork::Emptied(attempts::SERIALIZED.lock()),
    AtFork::Inherited(investigation::REPORTED.lock()),
    AtFork::Inherited(&messages::PROGRAM),
    AtFork::Emptied(&messages::RECEIVED),
    AtFork::InChild(messages::in_child),
];

extern "C" fn at_exit() {
    if let Some(state) = STATE.get() {
        attempts::unfinished().iter().for_each(|attempt| investigation::report(state, attempt, true));
    }
}

fn is_followed(function: Id) -> bool {
    let is_of_callback = matches!(function, Id::CudnnSetCallback | Id::CudnnGetCallback);
    follow::is_followed(function) || calls::is_execution(function) || is_of_callback
}

impl Intercept for Explain {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get().filter(|_| !calls::makes_variant_pack(call)) else { return next() };
        let mut start = None;
        match call.function {
            function if calls::is_execution(function) => {
                let returned = next();
                executed(state, call, returned.status());
                return returned;
            }
            Id::CudnnSetCallback => {
                let [mask, data, function] = call.bits();
                // SAFETY: these are the arguments of the call.
                let callback = unsafe { callback(mask, data, function) };
                if let Some(answer) = R::from_status(cudnnStatus_t::CUDNN_STATUS_SUCCESS)
                    && messages::store_if_receiving(callback)
                {
                    return answer;
                }
            }
            Id::CudnnBackendFinalize => start = Some(Instant::now()),
            _ => {}
        }
        let destruction = calls::before(call);
        let kind = destruction.as_ref().and_then(shadow::Destruction::kind);
        if let Some(attempt) = kind.and_then(|kind| destroying(kind, calls::descriptor(call))) {
            investigation::report(state, &attempt, false);
        }
        let returned = next();
        let duration = start.map(|start| start.elapsed()).unwrap_or_default();
        let status = returned.status();
        follow::returned(call, status, destruction);
        let Some(status) = status else { return returned };
        if let Some(attempt) = follow(state, call, status, duration) {
            investigation::report(state, &attempt, false);
        }
        returned
    }
}

/// Follows a descriptor that is about to be destroyed. Returns an attempt if the program has given up.
fn destroying(kind: Kind, descriptor: Raw) -> Option<Attempt> {
    match kind {
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => attempts::graph_destroyed(descriptor),
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => attempts::configuration_destroyed(descriptor),
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => {
            let free = if attempts::is_unused(descriptor) { driver::free_memory() } else { None };
            attempts::plan_destroyed(descriptor, free)
        }
        _ => None,
    }
}

/// Follows a call that has returned. Returns an attempt if the program has given up.
fn follow(state: &State, call: &Call<'_>, status: cudnnStatus_t, duration: Duration) -> Option<Attempt> {
    let is_success = status == cudnnStatus_t::CUDNN_STATUS_SUCCESS;
    match call.function {
        Id::CudnnGetCallback if is_success => {
            let [mask, data, function] = call.bits();
            // SAFETY: cuDNN has accepted these pointers and has written to them.
            unsafe { messages::replace_with_program_callback(mask as *mut _, data as *mut _, function as *mut _) };
        }
        Id::CudnnBackendGetAttribute if is_success => {
            if let Some(json) = serialized::json_read(call).filter(|_| state.is_used_shown) {
                attempts::serialized(calls::descriptor(call), json);
            }
            let query = HeuristicsQuery::of(call)?;
            let count = query.results()?;
            let stored = count.min(query.requested);
            // SAFETY: cuDNN has filled these descriptors of the program.
            let stored = unsafe { accepted_words(query.elements, stored) }.map(calls::raw).collect::<Vec<_>>();
            return attempts::proposed(query.heuristics, count, &stored);
        }
        Id::CudnnBackendFinalize => {
            let descriptor = calls::descriptor(call);
            let content = shadow::content(descriptor)?;
            match content.kind {
                Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR if is_success => built(state, descriptor, duration),
                Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => return attempts::plan_failed(&content, status),
                _ => return attempts::finalized(&content, status),
            }
        }
        _ => {}
    }
    None
}

/// Reads the workspace of a plan that was built, and its engine if used plans are shown.
fn built(state: &State, plan: Raw, duration: Duration) {
    let cudnn = &state.cudnn;
    let workspace = own_calls(cudnn, || {
        // SAFETY: the program has just finalized the plan.
        let plan = unsafe { cudnn.descriptor(plan) };
        let size = plan.workspace_size().unwrap_or_default();
        if state.is_used_shown {
            learn(&plan, size);
        }
        size
    });
    attempts::plan_built(plan, workspace, duration);
}

/// Reads the engine of a plan, which all labels of the plan then show.
fn learn(plan: &Descriptor<'_>, workspace: i64) {
    shadow::workspace_read(plan.raw(), workspace);
    let (name, kind) = (Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    let configuration = shadow::content(plan.raw()).and_then(|content| content.child(name).cloned());
    if let Some(facts) = configuration.as_ref().and_then(|configuration| configuration.facts.as_ref()) {
        let _ = plan.with_child(name, kind, |configuration| {
            facts.set_chosen(ChosenEngine::read(configuration));
            Ok(())
        });
    }
}

/// Follows an execution, and writes a line for the first one of a plan.
fn executed(state: &State, call: &Call<'_>, status: Option<cudnnStatus_t>) {
    let [_, plan] = call.bits();
    let plan = calls::raw(plan);
    match status {
        Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) => {
            let executed = attempts::executed(plan).filter(|_| state.is_used_shown);
            if let Some((duration, restored_from)) = executed {
                let _guard = ThreadStateGuard::new();
                investigation::write_used(state, plan, duration, restored_from);
            }
        }
        Some(status) => attempts::execution_failed(plan, status),
        None => {}
    }
}

/// # Safety
/// The numbers are the arguments of a call.
unsafe fn callback(mask: u64, data: u64, function: u64) -> Callback {
    let function: *mut c_void = std::ptr::with_exposed_provenance_mut(function as usize);
    // SAFETY: guaranteed by the caller; a null pointer is `None`.
    let function = unsafe { std::mem::transmute::<*mut c_void, cudnnCallback_t>(function) };
    Callback { mask: calls::number(mask), data: std::ptr::with_exposed_provenance_mut(data as usize), function }
}
