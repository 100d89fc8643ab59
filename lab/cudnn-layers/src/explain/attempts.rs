//! Follows each graph from the heuristics to the first execution, to find graphs without a working plan.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_sys::types::cudnnStatus_t as Status;

use super::reason::status_name;
use crate::lock::Lock;
use crate::serialized::SerializedPlans;
use crate::shadow;
use crate::shadow::calls::FALLBACK_MODE;
use crate::shadow::content::Content;
use crate::shadow::devices::{self, ReferencedDevice};
use crate::shadow::elements::{Kind, Name, Raw};

#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) graph: Arc<Content>,
    /// The device that the program described, if any.
    pub(super) device: Option<Arc<Content>>,
    /// The number of proposals, or the status of a failed call, by heuristics mode.
    pub(super) proposals: BTreeMap<i64, Result<usize, String>>,
    engines_built: usize,
    engines_failed: usize,
    pub(super) failed_plans: BTreeMap<String, usize>,
    pub(super) failed_executions: BTreeMap<String, usize>,
    pub(super) workspaces: Vec<i64>,
    /// The free device memory in bytes when the program destroyed a plan without executing it.
    pub(super) free_memory: Option<u64>,
    live_plans: usize,
    live_proposals: usize,
    is_destroyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// All heuristics queries were empty, or no engine could be created.
    NoEngine,
    NoPlan,
    /// Plans were built, but the program destroyed all of them without executing them.
    NotExecuted,
    NoExecution,
}

impl Attempt {
    fn new(graph: Arc<Content>) -> Self {
        Attempt {
            graph,
            device: None,
            proposals: BTreeMap::new(),
            engines_built: 0,
            engines_failed: 0,
            failed_plans: BTreeMap::new(),
            failed_executions: BTreeMap::new(),
            workspaces: Vec::new(),
            free_memory: None,
            live_plans: 0,
            live_proposals: 0,
            is_destroyed: false,
        }
    }

    /// Returns whether the program has given up: no plan is left, and it has either tried all proposals including those
    /// of the fallback mode, which is the last one, or destroyed the graph and all proposals.
    fn is_exhausted(&self) -> bool {
        let proposals: usize = self.proposals.values().map(|proposals| proposals.as_ref().copied().unwrap_or(0)).sum();
        let tried = self.failed_plans.values().sum::<usize>() + self.workspaces.len();
        let has_tried_all = self.proposals.contains_key(&FALLBACK_MODE) && tried >= proposals;
        let is_destroyed = self.is_destroyed && self.live_proposals == 0;
        self.live_plans == 0 && (has_tried_all || is_destroyed)
    }

    /// Returns why to report the graph, if the program has given up on it.
    pub(super) fn failure(&self) -> Option<AttemptFailure> {
        let has_proposals = self.proposals.values().any(|proposals| proposals.as_ref().is_ok_and(|count| *count > 0));
        if !self.failed_executions.is_empty() {
            Some(AttemptFailure::NoExecution)
        } else if !self.workspaces.is_empty() {
            (self.live_plans == 0).then_some(AttemptFailure::NotExecuted)
        } else if !self.failed_plans.is_empty() {
            Some(AttemptFailure::NoPlan)
        } else if has_proposals || self.engines_built > 0 {
            None
        } else {
            (!self.proposals.is_empty() || self.engines_failed > 0).then_some(AttemptFailure::NoEngine)
        }
    }
}

struct AttemptedPlan {
    graph: u64,
    duration: Duration,
    /// The label of the original plan.
    restored_from: Option<Arc<str>>,
}

#[derive(Default)]
pub(super) struct Attempts {
    /// Attempts by a hash of graph and handle. PyTorch describes a graph again for each heuristics mode.
    attempts: BTreeMap<u64, Attempt>,
    /// The live plans that were not executed, by address.
    plans: BTreeMap<usize, AttemptedPlan>,
    /// The keys of graphs by the address of a proposal.
    proposals: BTreeMap<usize, u64>,
    /// The keys of executed graphs, which are never reported.
    succeeded: BTreeSet<u64>,
}

pub(super) static STATE: Lock<Option<Attempts>> = Lock::new(None);

pub(super) static SERIALIZED: SerializedPlans<Arc<str>> = SerializedPlans::new();

/// Whether there are live plans that were not executed. It avoids taking the lock when only known plans are executed.
static HAS_UNUSED_PLANS: AtomicBool = AtomicBool::new(false);

fn with<T>(section: impl FnOnce(&mut Attempts) -> T) -> Option<T> {
    let mut state = STATE.lock()?;
    let state = state.get_or_insert_default();
    let result = section(state);
    HAS_UNUSED_PLANS.store(!state.plans.is_empty(), Ordering::Relaxed);
    Some(result)
}

impl Attempts {
    /// Changes an attempt. Returns it if the program has given up.
    fn change(&mut self, key: u64, change: impl FnOnce(&mut Attempt)) -> Option<Attempt> {
        let attempt = self.attempts.get_mut(&key)?;
        change(attempt);
        if attempt.is_exhausted() { self.attempts.remove(&key) } else { None }
    }
}

const MAX_GRAPHS: usize = 1024;
const MAX_PROPOSALS: usize = 1 << 16;

/// Returns a hash of a graph and its handle, because devices may support different engines.
pub(super) fn key(graph: &Arc<Content>) -> u64 {
    let mut hasher = DefaultHasher::new();
    shadow::known_parts(graph).id().hash(&mut hasher);
    // The id contains only the number of handles.
    devices::devices(graph)
        .iter()
        .filter_map(|device| match device {
            ReferencedDevice::Handle(handle) => Some(handle),
            _ => None,
        })
        .for_each(|handle| handle.hash(&mut hasher));
    hasher.finish()
}

/// Returns the key of a descriptor's graph, if cuDNN has accepted the graph. Otherwise, cuDNN names the mistake.
fn key_of(content: &Arc<Content>) -> Option<u64> {
    shadow::graph_of(content).filter(|graph| graph.is_finalized).map(key)
}

/// Runs a closure with the attempt for a descriptor's graph. Returns the attempt if the program has given up.
fn with_attempt(content: &Arc<Content>, key: u64, device: Name, section: impl FnOnce(&mut Attempt)) -> Option<Attempt> {
    let graph = shadow::graph_of(content)?;
    // Removed values are dropped after the lock is released.
    let (exhausted, _former) = with(|state| {
        if state.succeeded.contains(&key) {
            return (None, (BTreeMap::new(), None));
        }
        let is_full = state.attempts.len() >= MAX_GRAPHS;
        let all = if is_full { std::mem::take(&mut state.attempts) } else { BTreeMap::new() };
        let attempt = state.attempts.entry(key).or_insert_with(|| Attempt::new(graph.clone()));
        let device = content.child(device).and_then(|device| attempt.device.replace(device.clone()));
        (state.change(key, section), (all, device))
    })?;
    exhausted
}

fn mode_of(heuristics: &Content) -> i64 {
    heuristics.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE).unwrap_or(-1)
}

/// Records that the heuristics returned `count` proposals, and stored these.
pub(super) fn proposed(heuristics: Raw, count: usize, stored: &[Raw]) -> Option<Attempt> {
    let content = shadow::content(heuristics)?;
    let mode = mode_of(&content);
    let key = key_of(&content)?;
    let added = with(|state| {
        if state.succeeded.contains(&key) || state.proposals.len() >= MAX_PROPOSALS {
            return 0;
        }
        stored.iter().filter(|proposal| state.proposals.insert(proposal.addr(), key) != Some(key)).count()
    })?;
    with_attempt(&content, key, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, |attempt| {
        let known = attempt.proposals.entry(mode).or_insert(Ok(0));
        *known = Ok(count.max(known.as_ref().copied().unwrap_or(0)));
        attempt.live_proposals += added;
        // The program has described the graph again.
        attempt.is_destroyed = false;
    })
}

/// Records that a configuration is about to be destroyed. Returns the attempt if the program has given up.
pub(super) fn configuration_destroyed(configuration: Raw) -> Option<Attempt> {
    with(|state| {
        let key = state.proposals.remove(&configuration.addr())?;
        state.change(key, |attempt| attempt.live_proposals = attempt.live_proposals.saturating_sub(1))
    })
    .flatten()
}

pub(super) fn finalized(content: &Arc<Content>, status: Status) -> Option<Attempt> {
    let is_success = status == Status::CUDNN_STATUS_SUCCESS;
    match content.kind {
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR if !is_success => {
            let mode = mode_of(content);
            with_attempt(content, key_of(content)?, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, |attempt| {
                attempt.proposals.entry(mode).or_insert_with(|| Err(status_name(status)));
            })
        }
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => {
            with_attempt(content, key_of(content)?, Name::CUDNN_ATTR_ENGINE_DEVICEPROP, |attempt| {
                let count = if is_success { &mut attempt.engines_built } else { &mut attempt.engines_failed };
                *count += 1;
            })
        }
        _ => None,
    }
}

pub(super) fn plan_failed(content: &Arc<Content>, status: Status) -> Option<Attempt> {
    let name = status_name(status);
    with_attempt(content, key_of(content)?, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, |attempt| {
        *attempt.failed_plans.entry(name).or_default() += 1;
    })
}

pub(super) fn plan_built(plan: Raw, workspace: i64, duration: Duration) {
    let Some(content) = shadow::content(plan) else { return };
    let key = key_of(&content);
    let restored_from = SERIALIZED.origin(&content);
    let _not_exhausted = key.and_then(|key| {
        with_attempt(&content, key, Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, |attempt| {
            attempt.live_plans += 1;
            attempt.workspaces.push(workspace);
        })
    });
    // A restored plan has no graph.
    let graph = key.unwrap_or(0);
    // The layer may not have seen the destruction of a former plan at this address.
    let _former = with(|state| state.plans.insert(plan.addr(), AttemptedPlan { graph, duration, restored_from }));
}

/// Records that the program has read the JSON of a plan, from which it may restore the plan.
pub(super) fn serialized(plan: Raw, json: &[u8]) {
    if let Some(label) = shadow::label(plan) {
        SERIALIZED.add(json, label);
    }
}

/// More graphs than most programs execute. Beyond this number, the set is cleared.
const MAX_SUCCEEDED: usize = 65_536;

/// Records the execution of a plan. For the first one, returns the build time and the label of the original plan.
pub(super) fn executed(plan: Raw) -> Option<(Duration, Option<Arc<str>>)> {
    if !HAS_UNUSED_PLANS.load(Ordering::Relaxed) {
        return None;
    }
    let (plan, _attempt) = with(|state| {
        let plan = state.plans.remove(&plan.addr())?;
        if state.succeeded.len() >= MAX_SUCCEEDED {
            state.succeeded.clear();
        }
        state.succeeded.insert(plan.graph);
        let attempt = state.attempts.remove(&plan.graph);
        Some((plan, attempt))
    })
    .flatten()?;
    Some((plan.duration, plan.restored_from))
}

pub(super) fn execution_failed(plan: Raw, status: Status) {
    with(|state| {
        let graph = state.plans.get(&plan.addr())?.graph;
        let attempt = state.attempts.get_mut(&graph)?;
        *attempt.failed_executions.entry(status_name(status)).or_default() += 1;
        Some(())
    });
}

/// Records that a graph is about to be destroyed. Returns the attempt if the program has given up.
pub(super) fn graph_destroyed(graph: Raw) -> Option<Attempt> {
    let key = key(&shadow::content(graph)?);
    // The remaining proposals may become plans.
    with(|state| state.change(key, |attempt| attempt.is_destroyed = true)).flatten()
}

pub(super) fn is_unused(plan: Raw) -> bool {
    with(|state| state.plans.contains_key(&plan.addr())).unwrap_or(false)
}

/// Records that a plan is about to be destroyed. Returns the attempt if the program has given up.
pub(super) fn plan_destroyed(plan: Raw, free_memory: Option<u64>) -> Option<Attempt> {
    let (_plan, attempt) = with(|state| {
        let plan = state.plans.remove(&plan.addr())?;
        let attempt = state.change(plan.graph, |attempt| {
            attempt.live_plans = attempt.live_plans.saturating_sub(1);
            attempt.free_memory = free_memory.or(attempt.free_memory);
        });
        Some((plan, attempt))
    })
    .flatten()?;
    attempt
}

/// Returns the unfinished attempts when the process exits.
pub(super) fn unfinished() -> Vec<Attempt> {
    with(|state| std::mem::take(&mut state.attempts).into_values().collect()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::shadow::elements::Type;
    use crate::shadow::handles;

    fn graph(address: usize, handle: usize) -> Arc<Content> {
        let graph: Raw = std::ptr::without_provenance_mut(address);
        shadow::created(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph);
        let (name, ty) = (Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::CUDNN_TYPE_HANDLE);
        // SAFETY: the element is a handle.
        unsafe { shadow::attribute_set(graph, name, ty, 1, (&raw const handle).cast()) };
        shadow::content(graph).unwrap()
    }

    /// The second device may support no engine although the first one has executed the graph.
    #[test]
    fn graphs_with_different_handles_are_followed_separately() {
        let (one, other) = (0x7ff0_0000_0010, 0x7ff0_0000_0020);
        [one, other].into_iter().for_each(handles::created);
        let first = key(&graph(0x7ff0_0000_1000, one));
        assert_eq!(key(&graph(0x7ff0_0000_2000, one)), first);
        assert_ne!(key(&graph(0x7ff0_0000_3000, other)), first);
    }
}
