//! The layer `capture`, which records a program's work for cuDNN in a file.
//!
//! The file contains graphs, plans, the layout of executions, and failed calls in the format of
//! `cudnn_store::captures`, but no addresses and only small values from host memory. The layer never changes a call or
//! a result.
//!
//! | module | purpose |
//! | --- | --- |
//! | `plans` | records graphs, devices, proposals and plans, and counts executions |
//! | `execution` | records the first execution of a plan |
//! | `call` | counts calls outside of the backend API |
//! | `data` | stores the values of tensors on request |
//! | `failure`, `reason` | record failed calls, and cuDNN's reasons |
//! | `layout` | describes memory without addresses |
//! | `driver` | queries the driver about memory and streams |
//! | `file` | writes the records of a process |
//! | `options` | the name of the file, and the requested values |

mod call;
mod data;
mod driver;
mod execution;
mod failure;
mod file;
mod layout;
mod options;
mod plans;
mod reason;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::exit::call_at_exit;
use cudnn_sys::types::cudnnStatus_t;

use self::file::Output;
use crate::active::Active;
use crate::bypass::Bypass;
use crate::cudnn::Cudnn;
use crate::engine::ChosenEngine;
use crate::fork::{AtFork, Rank};
use crate::report::save_working_dir;
use crate::shadow::calls::HeuristicsQuery;
use crate::shadow::elements::{Kind, Raw};
use crate::shadow::{self, calls};
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};
use crate::{follow, serialized, trial};

pub use self::options::{DATA_VARIABLE, Options, VARIABLE, configure};

/// Writes a capture.
#[derive(Debug)]
pub struct Capture(());

struct State {
    host: Host,
    cudnn: Cudnn,
    output: Output,
    data: Vec<options::DataRequest>,
}

static STATE: Active<State> = Active::new();
static NEXT: Next = Next::new();

impl Layer for Capture {
    fn begin(host: Host) -> Result<Self, String> {
        save_working_dir();
        let cudnn = Cudnn::new(host);
        let data = options::data()?;
        let output = Output::create(Options::chosen()?.file, host)?;
        STATE.begin("capture", State { host, cudnn, output, data }, Rank::Capture, &AT_FORK)?;
        call_at_exit(at_exit);
        Ok(Capture(()))
    }

    fn check() -> Result<(), String> {
        options::data()?;
        file::KIND.check(&Options::chosen()?.file)
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        let Some(id) = Id::from_name(next.name().to_bytes()) else { return next };
        if follow::uses_descriptors(id) || call::is_counted(id) { intercept::<Capture>(next) } else { next }
    }
}

/// A forked child writes a separate file, but may use the descriptors of its parent.
static AT_FORK: &[AtFork] = &[
    AtFork::Emptied(plans::GRAPHS.lock()),
    AtFork::Emptied(plans::INCOMPLETE.lock()),
    AtFork::Emptied(plans::DEVICES.lock()),
    AtFork::Emptied(plans::PROPOSALS.lock()),
    AtFork::Emptied(plans::PLANS.lock()),
    AtFork::Emptied(&plans::STORED),
    AtFork::Emptied(&plans::LIVE),
    AtFork::Emptied(plans::SERIALIZED.lock()),
    AtFork::Inherited(plans::CHOICES.table()),
    AtFork::InChild(data::in_child),
    AtFork::Emptied(execution::EXECUTIONS.lock()),
    AtFork::Emptied(failure::FAILURES.lock()),
    AtFork::InChild(call::in_child),
    AtFork::Inherited(&file::CREATING),
    AtFork::InChild(file::in_child),
];

extern "C" fn at_exit() {
    if let Some(state) = STATE.get() {
        for stored in plans::all_executed() {
            plans::write_last_count(state, &stored);
        }
        call::write_last(state);
    }
}

impl Intercept for Capture {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get().filter(|_| !trial::is_running()) else { return next() };
        if !follow::uses_descriptors(call.function) {
            let returned = next();
            if is_current(state) {
                call::count(state, call.function);
            }
            return returned;
        }
        let candidate = if calls::is_execution(call.function) { data::before(state, call) } else { None };
        let start = (call.function == Id::CudnnBackendFinalize).then(Instant::now);
        let destruction = calls::before(call);
        let kind = destruction.as_ref().and_then(shadow::Destruction::kind);
        if kind == Some(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
            plans::destroyed(calls::descriptor(call));
        }
        let returned = next();
        let duration = start.map(|start| start.elapsed()).unwrap_or_default();
        match returned.status() {
            Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) => {
                follow::returned(call, returned.status(), destruction);
                succeeded(state, call, duration);
                if let Some(candidate) = candidate {
                    data::after(state, call, &candidate);
                }
            }
            status => {
                // Record the descriptor before the call.
                if let Some(status) = status {
                    failed(state, call, status, duration);
                }
                follow::returned(call, status, destruction);
            }
        }
        returned
    }
}

fn succeeded(state: &State, call: &Call<'_>, duration: Duration) {
    match call.function {
        Id::CudnnBackendSetAttribute => {
            if let Some((plan, configuration)) = calls::configured(call).filter(|_| is_current(state)) {
                let _guard = ThreadStateGuard::new();
                // SAFETY: cuDNN has accepted both descriptors in this call, so they are live.
                let configuration = unsafe { state.cudnn.descriptor(configuration) };
                plans::CHOICES.set(plan, || Some(ChosenEngine::read_unnoticed(&configuration)));
            }
        }
        Id::CudnnBackendGetAttribute => {
            if let Some(json) = serialized::json_read(call) {
                plans::serialized(calls::descriptor(call), json);
            }
            if let Some(query) = HeuristicsQuery::of(call).filter(|_| is_current(state))
                && let Some(count) = query.results()
            {
                let _guard = ThreadStateGuard::new();
                plans::proposed(state, query.heuristics, count);
            }
        }
        Id::CudnnBackendFinalize => {
            let plan = calls::descriptor(call);
            if is_plan(plan) && is_current(state) {
                let _guard = ThreadStateGuard::new();
                plans::finalized(state, plan, cudnnStatus_t::CUDNN_STATUS_SUCCESS, duration);
            }
        }
        function if calls::is_execution(function) => {
            let [_, plan] = call.bits();
            if let Some(live) = plans::executed(state, calls::raw(plan)) {
                let _guard = ThreadStateGuard::new();
                if is_current(state) {
                    execution::record(state, call, &live, cudnnStatus_t::CUDNN_STATUS_SUCCESS);
                }
            }
        }
        _ => {}
    }
}

#[cold]
fn failed(state: &State, call: &Call<'_>, status: cudnnStatus_t, duration: Duration) {
    if matches!(call.function, Id::CudnnCreate | Id::CudnnDestroy) {
        return;
    }
    let _guard = ThreadStateGuard::new();
    let is_recorded = match call.function {
        _ if !is_current(state) => true,
        Id::CudnnBackendFinalize if is_new_plan(calls::descriptor(call)) => {
            plans::finalized(state, calls::descriptor(call), status, duration)
        }
        function if calls::is_execution(function) => {
            let [_, plan] = call.bits();
            // Read the reason first, because other calls replace it.
            failure::record(state, call, status);
            if let Some(live) = plans::live(calls::raw(plan)) {
                execution::record(state, call, &live, status);
            }
            true
        }
        _ => false,
    };
    if !is_recorded {
        failure::record(state, call, status);
        if call.function == Id::CudnnBackendFinalize {
            plans::refused(state, calls::descriptor(call), status, duration);
        }
    }
}

fn is_plan(descriptor: Raw) -> bool {
    shadow::content(descriptor).is_some_and(|content| content.kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
}

/// Returns whether a descriptor is a plan that was never finalized.
fn is_new_plan(descriptor: Raw) -> bool {
    is_plan(descriptor) && shadow::content(descriptor).is_some_and(|content| !content.is_finalized)
}

fn is_current(state: &State) -> bool {
    static BYPASS: Bypass = Bypass::new("nothing more is captured");
    BYPASS.has_seen_all(state.host)
}
