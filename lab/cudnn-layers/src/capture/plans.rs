//! Records graphs, devices, proposals and plans, and counts executions. Each record is written once. Executing a known
//! plan only increments a number in a table with many locks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cudnn_graph::names::{behavior_note, numerical_note};
use cudnn_store::captures::{
    CountRecord, DeviceRecord, Engine, GraphRecord, IncompleteRecord, PlanRecord, ProposalsRecord, Record,
};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::State;
use super::reason::reason;
use crate::device;
use crate::engine::ChosenEngine;
use crate::last_error::own_calls;
use crate::lock::Lock;
use crate::plan_configurations::PlanConfigurations;
use crate::serialized::SerializedPlans;
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::shadow::{self, UNSEEN};
use crate::table::Table;
use crate::written::WrittenRecords;

pub(super) static GRAPHS: WrittenRecords = WrittenRecords::new();
pub(super) static INCOMPLETE: WrittenRecords = WrittenRecords::new();
pub(super) static DEVICES: WrittenRecords = WrittenRecords::new();
pub(super) static PROPOSALS: WrittenRecords = WrittenRecords::new();
pub(super) static PLANS: WrittenRecords = WrittenRecords::new();

/// A plan in the capture, which descriptors with the same graph, device, engine and status share.
#[derive(Debug)]
pub(super) struct StoredPlan {
    pub(super) ordinal: usize,
    pub(super) graph: Arc<str>,
    executions: AtomicU64,
    /// The number in the last record.
    written: AtomicU64,
    /// The number of executions whose values may be stored, including failed ones.
    numbered: AtomicU64,
}

impl StoredPlan {
    fn new(ordinal: usize, graph: Arc<str>) -> Self {
        let [executions, written, numbered] = [0; 3].map(AtomicU64::new);
        StoredPlan { ordinal, graph, executions, written, numbered }
    }

    /// Returns the number of an execution that begins, from 1.
    pub(super) fn next_execution(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The plans in the capture, by ordinal.
pub(super) static STORED: Lock<BTreeMap<usize, Arc<StoredPlan>>> = Lock::keeping(BTreeMap::new());

/// A plan that was finalized and not destroyed.
#[derive(Clone)]
pub(super) struct LivePlan {
    pub(super) stored: Arc<StoredPlan>,
    pub(super) graph: Arc<Content>,
}

pub(super) static LIVE: Table<LivePlan, 32> = Table::new(usize::MAX);

/// The engines of plans that are not finalized yet.
pub(super) static CHOICES: PlanConfigurations<Arc<ChosenEngine>> = PlanConfigurations::new();

pub(super) static SERIALIZED: SerializedPlans<(Arc<StoredPlan>, Arc<Content>)> = SerializedPlans::new();

/// The reason for omitting a restored plan.
const RESTORED: &str = "the plan was restored from JSON of an unknown plan";

fn graph_of(state: &State, content: &Arc<Content>) -> Option<Arc<Content>> {
    let graph = shadow::graph_of(content);
    if graph.is_none() {
        let label = shadow::describe(content).unwrap_or_default();
        let is_restored = content.attribute(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION).is_some();
        incomplete(state, &label, if is_restored { RESTORED } else { &UNSEEN });
    }
    graph.cloned()
}

/// Returns the id of a graph that can be stored, and writes new graphs.
fn graph_id(state: &State, graph: &Arc<Content>) -> Option<Arc<str>> {
    let label = || shadow::describe(graph).unwrap_or_default();
    let nodes = shadow::graph(graph).map_err(|reason| incomplete(state, &label(), &reason)).ok()?;
    let id = nodes.id();
    let record = || GraphRecord { graph: id.clone(), label: label(), nodes: nodes.clone() };
    GRAPHS.write(&id, |_| state.output.write(&Record::Graph(record())))?;
    Some(Arc::from(id))
}

/// Records once that something is not stored, and why.
fn incomplete(state: &State, label: &str, reason: &str) {
    let _ordinal = INCOMPLETE.write(&(label, reason), |_| {
        let (label, reason) = (label.to_owned(), reason.to_owned());
        state.output.write(&Record::Incomplete(IncompleteRecord { label, reason }))
    });
}

/// Returns the ordinal of the device of a plan or heuristics query, and writes new devices.
fn device(state: &State, content: &Arc<Content>) -> Option<usize> {
    let description = String::from_utf8_lossy(&device::description(&state.cudnn, content)?).into_owned();
    DEVICES.write(&description, |device| {
        state.output.write(&Record::Device(DeviceRecord { device, description: description.clone() }))
    })
}

pub(super) fn proposed(state: &State, heuristics: Raw, count: usize) {
    let Some(content) = shadow::content(heuristics) else { return };
    let Some(graph) = graph_of(state, &content).and_then(|graph| graph_id(state, &graph)) else { return };
    let mode = content.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE).unwrap_or(-1);
    let device = device(state, &content);
    let _ordinal = PROPOSALS.write(&(&graph, device, mode, count), |_| {
        state.output.write(&Record::Proposals(ProposalsRecord { graph: graph.to_string(), device, mode, count }))
    });
}

/// Records that cuDNN refused heuristics, an engine or a configuration. The record is a plan without an engine, so that
/// readers find graphs without plans.
pub(super) fn refused(state: &State, descriptor: Raw, status: Status, duration: Duration) {
    let Some(content) = shadow::content(descriptor).filter(|content| !content.is_finalized) else { return };
    let precedes_plan = matches!(
        content.kind,
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
            | Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR
            | Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
    );
    // If cuDNN refuses a graph, it names the mistake.
    let Some(graph) = shadow::graph_of(&content).filter(|graph| precedes_plan && graph.is_finalized) else { return };
    let reason = reason(&state.cudnn);
    let Some(graph) = graph_id(state, graph) else { return };
    let _ordinal = write_plan(
        state,
        PlanRecord {
            graph: graph.to_string(),
            device: device(state, &content),
            status: status.into(),
            reason,
            build_us: microseconds(duration),
            ..PlanRecord::default()
        },
    );
}

/// Records that the program has read the JSON of a plan, from which it may restore the plan.
pub(super) fn serialized(plan: Raw, json: &[u8]) {
    if let Some(live) = live(plan) {
        SERIALIZED.add(json, (live.stored, live.graph));
    }
}

/// Records a plan that was finalized or refused. Returns `false` if its graph cannot be stored.
pub(super) fn finalized(state: &State, plan: Raw, status: Status, duration: Duration) -> bool {
    let is_success = status == Status::CUDNN_STATUS_SUCCESS;
    // Read the reason first, because the layer's own calls replace it.
    let reason = if is_success { None } else { reason(&state.cudnn) };
    let content = shadow::content(plan);
    let origin = content.as_ref().and_then(|content| SERIALIZED.origin(content));
    let stored = match (origin, content) {
        // Executions of a restored plan count for the original plan.
        (Some(origin), _) if is_success => Some(origin),
        (origin, Some(content)) => {
            let graph = origin.map(|(_, graph)| graph).or_else(|| graph_of(state, &content));
            graph.and_then(|graph| Some((store(state, plan, (&content, &graph), status, (reason, duration))?, graph)))
        }
        _ => None,
    };
    let is_stored = stored.is_some();
    let _former = match stored.filter(|_| is_success) {
        Some((stored, graph)) => LIVE.insert(plan.addr(), LivePlan { stored, graph }),
        None => LIVE.remove(plan.addr()),
    };
    is_stored
}

/// Writes a plan, unless the capture contains an equal one.
fn store(
    state: &State,
    plan: Raw,
    (content, graph): (&Arc<Content>, &Arc<Content>),
    status: Status,
    (reason, duration): (Option<String>, Duration),
) -> Option<Arc<StoredPlan>> {
    let graph = graph_id(state, graph)?;
    let device = device(state, content);
    let is_success = status == Status::CUDNN_STATUS_SUCCESS;
    // The program may finalize a refused plan again.
    let choice = if is_success { CHOICES.take(plan) } else { CHOICES.get(plan) };
    let choice = choice.and_then(|configured| configured.current(content));
    let workspace = if is_success { workspace(state, plan) } else { None };
    let engine = choice.and_then(|choice| Some(engine(choice.engine?, &choice)));
    let ordinal = write_plan(
        state,
        PlanRecord {
            plan: 0,
            graph: graph.to_string(),
            device,
            status: status.into(),
            reason,
            engine,
            proposal: shadow::place(content),
            workspace,
            build_us: microseconds(duration),
        },
    )?;
    let mut all = STORED.lock()?;
    Some(all.entry(ordinal).or_insert_with(|| Arc::new(StoredPlan::new(ordinal, graph))).clone())
}

/// Writes a plan with an ordinal, unless a plan with the same key was written.
fn write_plan(state: &State, plan: PlanRecord) -> Option<usize> {
    PLANS.write(&plan.key(), |ordinal| state.output.write(&Record::Plan(PlanRecord { plan: ordinal, ..plan.clone() })))
}

fn workspace(state: &State, plan: Raw) -> Option<i64> {
    // SAFETY: the plan is finalized and live.
    let plan = unsafe { state.cudnn.descriptor(plan) };
    own_calls(&state.cudnn, || plan.workspace_size()).ok()
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn engine(index: i64, choice: &ChosenEngine) -> Engine {
    let numerical = choice.numerical_notes.iter().map(|note| numerical_note(i64::from(note.0)));
    let behavior = choice.behavior_notes.iter().map(|note| behavior_note(i64::from(note.0)));
    Engine {
        index,
        knobs: choice.knobs.iter().map(|(knob, value)| (Engine::knob_name(*knob), *value)).collect(),
        notes: numerical.chain(behavior).collect(),
    }
}

pub(super) fn destroyed(plan: Raw) {
    let _choice = CHOICES.take(plan);
    let _plan = LIVE.remove(plan.addr());
}

/// Counts a successful execution. Returns the plan for the first one.
pub(super) fn executed(state: &State, plan: Raw) -> Option<LivePlan> {
    let (executions, live) = LIVE
        .with_value(plan.addr(), |live| {
            let executions = live.stored.executions.fetch_add(1, Ordering::Relaxed) + 1;
            executions.is_power_of_two().then(|| (executions, live.clone()))
        })
        .flatten()?;
    if executions == 1 {
        return Some(live);
    }
    write_count(state, &live.stored, executions);
    None
}

pub(super) fn live(plan: Raw) -> Option<LivePlan> {
    LIVE.get(plan.addr())
}

fn write_count(state: &State, stored: &StoredPlan, executions: u64) {
    if stored.written.fetch_max(executions, Ordering::Relaxed) < executions {
        state.output.write(&Record::Count(CountRecord { plan: stored.ordinal, executions }));
    }
}

/// Writes the number of executions, unless the capture already contains it.
pub(super) fn write_last_count(state: &State, stored: &StoredPlan) {
    let executions = stored.executions.load(Ordering::Relaxed);
    if executions > 1 {
        write_count(state, stored, executions);
    }
}

pub(super) fn all_executed() -> Vec<Arc<StoredPlan>> {
    let all = STORED.lock();
    let stored = all.iter().flat_map(|all| all.values());
    stored.filter(|stored| stored.executions.load(Ordering::Relaxed) > 0).cloned().collect()
}
