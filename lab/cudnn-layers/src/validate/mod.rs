//! The layer `validate`, which reports mistakes that cuDNN accepts or does not explain.
//!
//! It never changes a call, a result or an error text. Rules are checked only if all descriptors are known, and many
//! rules only if cuDNN has refused the call.
//!
//! | module | purpose |
//! | --- | --- |
//! | `rules` | the rules with codes and names |
//! | `attribute` | checks attributes when the program sets them |
//! | `descriptor` | checks single descriptors |
//! | `operation` | checks single operations |
//! | `graph` | checks how operations are connected |
//! | `execution` | compares variant packs with the graph |
//! | `destroyed` | stores destroyed descriptors |
//! | `message`, `texts` | write messages without duplicates, and name descriptors in them |
//! | `options` | the destination of the messages |

mod attribute;
mod descriptor;
mod destroyed;
mod execution;
mod graph;
mod message;
mod operation;
mod options;
mod rules;
mod texts;

use std::ffi::CStr;

use cudnn_graph::declared;
use cudnn_graph::operation::is_operation;
use cudnn_layer_api::{Host, Layer, NextFunction};
use cudnn_sys::types::cudnnStatus_t;

use self::destroyed::Destroying;
use self::message::{STATE, State, WRITTEN};
use crate::fork::{AtFork, Rank};
use crate::program_memory;
use crate::report;
use crate::shadow::elements::{Kind, Name, Raw, Type};
use crate::shadow::{self, calls};
use crate::trial;
use crate::wrappers::{Call, Id, Intercept, Next, Returned, intercept};

pub use self::options::{Options, VARIABLE, configure};
pub use self::rules::{RULES, ValidationRule};
pub use crate::report::Destination;

/// Reports mistakes.
#[derive(Debug)]
pub struct Validate(());

static NEXT: Next = Next::new();

static AT_FORK: &[AtFork] = &[
    AtFork::Inherited(WRITTEN.lock()),
    AtFork::Inherited(&graph::CHECKED),
    AtFork::Inherited(&execution::PLANS),
    AtFork::Inherited(&destroyed::TABLE),
];

/// Returns the name of this library's layer, if it is active.
pub(crate) fn name() -> Option<&'static CStr> {
    STATE.get().map(|state| state.host.name())
}

impl Layer for Validate {
    fn begin(host: Host) -> Result<Self, String> {
        report::save_working_dir();
        let file = report::open(&Options::chosen().output)?;
        STATE.begin("validate", State { host, file }, Rank::Validate, &AT_FORK)?;
        Ok(Validate(()))
    }

    fn check() -> Result<(), String> {
        Options::chosen().output.check()
    }

    fn wrap<'a>(&self, next: NextFunction<'a>) -> NextFunction<'a> {
        let is_followed = Id::from_name(next.name().to_bytes()).is_some_and(is_followed);
        if is_followed { intercept::<Validate>(next) } else { next }
    }
}

/// Returns whether the layer follows a function, because it has descriptors.
fn is_followed(function: Id) -> bool {
    calls::is_descriptor_function(function)
        || calls::is_execution(function)
        || function == Id::CudnnGetExecutionPlanWorkspaceSize
}

impl Intercept for Validate {
    const NEXT: &'static Next = &NEXT;

    fn intercept<R: Returned>(call: &Call<'_>, next: impl FnOnce() -> R) -> R {
        let Some(state) = STATE.get().filter(|_| !trial::is_running()) else { return next() };
        before(state, call);
        let destruction = calls::before(call);
        let destroying = destruction.as_ref().and_then(|destruction| destruction.kind()).map(|kind| {
            let descriptor = calls::descriptor(call);
            if kind == Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR {
                execution::forget(descriptor);
            }
            Destroying::new(descriptor, kind)
        });
        let returned = next();
        if returned.status() == Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) {
            destroying.into_iter().for_each(Destroying::succeeded);
            calls::after(call, destruction);
            succeeded(state, call);
        } else {
            failed(state, call);
        }
        returned
    }
}

/// Runs the checks that must precede a call, because cuDNN or the program may crash.
fn before(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendCreateDescriptor => {}
        function if calls::is_execution(function) || function == Id::CudnnGetExecutionPlanWorkspaceSize => {
            let [_, plan, pack] = call.bits();
            let (plan, pack) = (calls::raw(plan), calls::raw(pack));
            check_alive(state, call, plan);
            check_alive(state, call, pack);
            if calls::is_execution(function) {
                execution::executing(state, plan, pack);
            }
        }
        Id::CudnnBackendSetAttribute => {
            let [descriptor, name, ty, count, elements] = call.bits();
            let (descriptor, name) = (calls::raw(descriptor), Name(calls::number(name)));
            check_alive(state, call, descriptor);
            let is_descriptor = Type(calls::number(ty)) == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
            let is_declared = declared::is_declared(name, Type(calls::number(ty)), count.cast_signed());
            if is_descriptor && is_declared && elements != 0 {
                check_first_element(state, call, descriptor, name, elements);
            }
        }
        Id::CudnnBackendFinalize => {
            let descriptor = calls::descriptor(call);
            check_alive(state, call, descriptor);
            if let Some(content) = shadow::content(descriptor) {
                descriptor::finalizing(state, &content);
            }
        }
        _ => check_alive(state, call, calls::descriptor(call)),
    }
}

/// Checks the first descriptor of an attribute. The others are checked after the call, because cuDNN may read only one.
fn check_first_element(state: &State, call: &Call<'_>, descriptor: Raw, name: Name, elements: u64) {
    let Some(parent) = shadow::content(descriptor).filter(|content| !content.is_finalized) else { return };
    let kind = parent.kind;
    drop(parent);
    let Some(child) = program_memory::copy_word(elements).map(calls::raw) else { return };
    check_alive(state, call, child);
    if let Some(child) = shadow::content(child) {
        attribute::check_child(state, kind, name, &child);
    }
}

fn check_alive(state: &State, call: &Call<'_>, descriptor: Raw) {
    if let Some(kind) = destroyed::destroyed(descriptor) {
        let (function, kind) = (call.function.name(), texts::kind_name(kind));
        state.report(&rules::DESTROYED, &format!("{function} was called with a {kind} that was destroyed"));
    }
}

fn succeeded(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendCreateDescriptor => {
            let [_, to] = call.bits();
            // SAFETY: cuDNN has written the descriptor.
            if let Some(descriptor) = unsafe { program_memory::accepted_word(to) } {
                destroyed::revived(descriptor as usize);
            }
        }
        Id::CudnnBackendInitialize => destroyed::revived(calls::descriptor(call).addr()),
        Id::CudnnBackendSetAttribute => {
            let [descriptor, name, ty, count] = call.bits();
            if Type(calls::number(ty)) == Type::CUDNN_TYPE_BACKEND_DESCRIPTOR && count > 1 {
                attribute::accepted(state, calls::raw(descriptor), Name(calls::number(name)));
            }
        }
        Id::CudnnBackendFinalize => finalized(state, calls::descriptor(call), false),
        _ => {}
    }
}

fn failed(state: &State, call: &Call<'_>) {
    match call.function {
        Id::CudnnBackendCreateDescriptor => {
            let [kind] = call.bits();
            descriptor::refused(state, Kind(calls::number(kind)));
        }
        Id::CudnnBackendInitialize => shadow::failed(calls::descriptor(call)),
        Id::CudnnBackendSetAttribute => {
            let [descriptor, name] = call.bits();
            let descriptor = calls::raw(descriptor);
            shadow::failed(descriptor);
            attribute::refused(state, descriptor, Name(calls::number(name)));
        }
        Id::CudnnBackendFinalize => finalized(state, calls::descriptor(call), true),
        function if calls::is_execution(function) => {
            let [_, plan, pack] = call.bits();
            execution::failed(state, calls::raw(plan), calls::raw(pack));
        }
        _ => {}
    }
}

fn finalized(state: &State, descriptor: Raw, has_failed: bool) {
    let Some(content) = shadow::content(descriptor) else { return };
    // Finalizing a descriptor again fails, although the program is correct.
    if has_failed && content.is_finalized {
        return;
    }
    if has_failed {
        descriptor::finalization_refused(state, &content);
    }
    match content.kind {
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => graph::finalized(state, &content, has_failed),
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR | Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => {
            if let Some(graph) = shadow::graph_of(&content) {
                graph::used(state, graph);
            }
        }
        _ if has_failed && is_operation(content.kind) => graph::operation_refused(state, &content),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use cudnn_os::testing::check_in_child;

    use super::*;

    fn use_locks(addresses: std::ops::Range<usize>) {
        for address in addresses {
            let descriptor: Raw = std::ptr::without_provenance_mut(address * 64);
            Destroying::new(descriptor, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR).succeeded();
            execution::forget(descriptor);
            drop((WRITTEN.lock(), graph::CHECKED.lock()));
            destroyed::revived(descriptor.addr());
        }
    }

    #[test]
    fn a_forked_child_never_waits() {
        crate::fork::take_part(Rank::Validate, &AT_FORK);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let addresses = 0x4000 + thread * 1000..0x4000 + thread * 1000 + 100;
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        use_locks(addresses.clone());
                    }
                });
            }
            let failed = (0..40).find(|_| {
                let check = || {
                    let start = Instant::now();
                    use_locks(0x9000..0x9100);
                    start.elapsed() < Duration::from_millis(900)
                };
                // SAFETY: the child uses only memory and the locks, which are free after a fork.
                !unsafe { check_in_child(check) }.unwrap_or(true)
            });
            stop.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }
}
