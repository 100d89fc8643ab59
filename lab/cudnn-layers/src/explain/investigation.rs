//! Tries engines and changes for a graph that the program has given up, and writes the report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_graph::Graph;
use cudnn_graph::rebuild::{Target, rebuild};
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_sys::types::cudnnStatus_t as Status;

use super::State;
use super::attempts::{Attempt, AttemptFailure, key};
use super::candidates::{self, Planned};
use super::messages;
use super::reason::Reason;
use super::report::{self, Findings};
use super::variants::variants;
use crate::bypass::Bypass;
use crate::cudnn::{ABSENT, Cudnn};
use crate::last_error::own_calls;
use crate::report::{Destination, Shown, open, process_name};
use crate::shadow;
use crate::shadow::content::Content;
use crate::shadow::devices::{self, ReferencedDevice};
use crate::shadow::elements::Raw;
use crate::written::WrittenRecords;

/// The time for trying engines. Plans that cuDNN compiles take up to half a second each.
const ENGINES_TIME: Duration = Duration::from_secs(5);
const VARIANTS_TIME: Duration = Duration::from_secs(5);
/// More reports than a person reads.
const MAX_REPORTS: usize = 1000;

pub(super) static REPORTED: WrittenRecords = WrittenRecords::at_most(MAX_REPORTS);

/// Writes a line about a plan that the program executes, unless the same line was written before.
pub(super) fn write_used(state: &State, plan: Raw, duration: Duration, restored_from: Option<Arc<str>>) {
    let built = if restored_from.is_some() { "restored" } else { "built" };
    let label = restored_from.or_else(|| shadow::label(plan));
    let label = label.as_deref().unwrap_or("a plan");
    if REPORTED.add(&label).is_some() {
        write(state, &format!("cudnn-explain: used: {label}; {built} in {}\n", Shown(duration)));
    }
}

fn write(state: &State, text: &str) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if let Err(error) = state.output.write(text.as_bytes())
        && !IS_REPORTED.swap(true, Ordering::Relaxed)
    {
        let line = format!("cannot write a report: {error}");
        state.host.error(&line);
        // The program may have no log.
        let _ = open(&Destination::Stderr).map(|stderr| stderr.write(format!("cudnn-explain: {line}\n").as_bytes()));
    }
}

/// Reports a graph that the program has given up. After its end, cuDNN may not work any more.
pub(super) fn report(state: &State, attempt: &Attempt, has_ended: bool) {
    let Some(failure) = attempt.failure() else { return };
    let _guard = ThreadStateGuard::new();
    let is_silent = failure == AttemptFailure::NotExecuted && !lacks_memory(attempt);
    if is_silent || !is_current(state) || !is_new_graph(attempt, failure) {
        return;
    }
    let mut findings = Findings::default();
    if has_ended {
        let omission = "unknown, because the program ended before it had tried all proposals; no engine was tried";
        findings.omission = Some(omission.to_owned());
    } else if !matches!(failure, AttemptFailure::NotExecuted | AttemptFailure::NoExecution) {
        findings.nvrtc = candidates::nvrtc(&state.cudnn);
        own_calls(&state.cudnn, || investigate(state, attempt, failure, &mut findings));
    }
    write(state, &report::failed(&process_name(state.host), attempt, failure, &findings));
}

/// Returns whether the plans need more memory than was free. Programs also build plans without executing them.
fn lacks_memory(attempt: &Attempt) -> bool {
    let smallest = attempt.workspaces.iter().min().copied().unwrap_or(0);
    attempt.free_memory.is_some_and(|free| u64::try_from(smallest).is_ok_and(|size| size > free))
}

fn is_new_graph(attempt: &Attempt, failure: AttemptFailure) -> bool {
    REPORTED.add(&(format!("{failure:?}"), key(&attempt.graph))).is_some()
}

fn is_current(state: &State) -> bool {
    static BYPASS: Bypass = Bypass::new("graphs are no longer explained");
    BYPASS.has_seen_all(state.host)
}

/// Tries the engines and, if there were no proposals, changes of the graph.
fn investigate(state: &State, attempt: &Attempt, failure: AttemptFailure, findings: &mut Findings) {
    let cudnn = &state.cudnn;
    if let Some(library) = candidates::missing_cublas_lt(cudnn, state.host) {
        findings.omission = Some(format!("{library} was not found. cuDNN needs it to try its engines"));
        return;
    }
    findings.lacks_messages = messages::go_to_a_log();
    let tried = messages::receive(cudnn, |messages| {
        let with_device = |work: &mut dyn FnMut(Option<Raw>)| match &attempt.device {
            None => work(None),
            Some(device) => {
                let described = shadow::graph(device).map_err(|_| ABSENT);
                let _ = described.and_then(|described| {
                    with_rebuilt(cudnn, &described, target(device), |device| {
                        work(Some(device));
                        Ok(())
                    })
                });
            }
        };
        with_device(&mut |device| {
            let deadline = Instant::now() + ENGINES_TIME;
            let Ok(graph) = shadow::graph(&attempt.graph) else { return };
            let target = target(&attempt.graph);
            let tried = with_rebuilt(cudnn, &graph, target, |graph| {
                // SAFETY: the graph and the device are live.
                unsafe { candidates::try_all(cudnn, messages, Planned { graph, device }, deadline) }
            });
            findings.candidates = tried.unwrap_or_default();
            let tried = &findings.candidates.tried;
            let mut reasons = tried.iter().filter_map(|tried| tried.failure.as_ref());
            let has_accepted = tried.iter().any(|tried| tried.has_accepted);
            // Some engines do not report that NVRTC is missing.
            findings.lacks_nvrtc = !has_accepted && !candidates::is_available(findings.nvrtc, state.host);
            let is_built = tried.iter().any(|tried| tried.failure.is_none());
            let lacks_prerequisite = reasons.any(Reason::is_prerequisite);
            let is_unsupported = matches!(failure, AttemptFailure::NoEngine | AttemptFailure::NoPlan) && !is_built;
            if lacks_prerequisite || !is_unsupported {
                return;
            }
            let deadline = Instant::now() + VARIANTS_TIME;
            for variant in variants(&graph) {
                if Instant::now() > deadline {
                    break;
                }
                findings.changes_tried += 1;
                let is_supported = with_rebuilt(cudnn, &variant.graph, target, |graph| {
                    Ok(candidates::has_plan(cudnn, Planned { graph, device }, deadline))
                });
                if is_supported == Ok(true) {
                    findings.changes.push(variant.change);
                    // cuDNN 9.28 compiles some plans without NVRTC.
                    findings.lacks_nvrtc = false;
                }
            }
        });
    });
    if findings.candidates.tried.is_empty() {
        let reason =
            if tried.is_none() { "another thread tries engines" } else { "the graph could not be described again" };
        findings.omission = Some(format!("unknown, because {reason}"));
    }
}

/// Returns the live handle of a graph or a device.
fn target(content: &Arc<Content>) -> Target {
    match devices::device(content) {
        Some(ReferencedDevice::Handle(handle) | ReferencedDevice::DescribedByHandle(handle)) => {
            Target::Handle(std::ptr::with_exposed_provenance_mut(handle.address))
        }
        _ => Target::None,
    }
}

/// Runs a closure with a descriptor of the graph. If a callback throws an exception, the descriptor leaks: see
/// [`Cudnn::with_descriptor`].
fn with_rebuilt<T>(
    cudnn: &Cudnn,
    graph: &Graph,
    target: Target,
    work: impl FnOnce(Raw) -> Result<T, Status>,
) -> Result<T, Status> {
    let functions = cudnn.functions().ok_or(ABSENT)?;
    // SAFETY: cuDNN has accepted these elements, or elements of the same type and number. The handle is live.
    let descriptor =
        unsafe { rebuild(graph, target, &functions) }.map_err(|refused| refused.error.unwrap_or(ABSENT))?;
    let result = work(descriptor);
    cudnn.destroy(descriptor);
    result
}
