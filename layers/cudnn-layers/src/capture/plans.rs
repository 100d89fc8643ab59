//! Records graphs, devices, proposals and plans, and counts executions.
//!
//! Each record is written once. An execution of a known plan increments a number in a table with many locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cudnn_capture_file::{Count, Device, Engine, GraphRecord, Incomplete, Plan, Proposals, Record, status_name};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::State;
use super::nodes;
use super::once::Once;
use super::reason::reason;
use crate::cudnn::read;
use crate::engine::Choice;
use crate::last_error::hide_errors;
use crate::lock::Lock;
use crate::shadow;
use crate::shadow::canonical::Obstacle;
use crate::shadow::content::Content;
use crate::shadow::elements::{Name, Raw, Type};
use crate::shadow::handles::Handle;
use crate::shadow::vocabulary;
use crate::trial;

static GRAPHS: Once = Once::new();
static INCOMPLETE: Once = Once::new();
static DEVICES: Once = Once::new();
static PROPOSALS: Once = Once::new();
static PLANS: Once = Once::new();

/// A plan in the capture. Plans of the same graph, device, engine and status share one.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) ordinal: usize,
    /// The id of the graph.
    pub(super) graph: Arc<str>,
    /// The number of successful executions.
    executions: AtomicU64,
    /// The number in the last record.
    written: AtomicU64,
}

/// The plans in the capture, by ordinal.
static STORED: Lock<Option<HashMap<usize, Arc<Stored>>>> = Lock::new(None);

/// A plan that the program has finalized and not destroyed.
struct Live {
    stored: Arc<Stored>,
    /// The layout of the execution is still missing in the capture.
    awaits_execution: bool,
}

/// Avoids false sharing between parts.
#[repr(align(128))]
struct Part(Lock<Option<HashMap<usize, Live>>>);

/// Live plans by address, in parts with separate locks.
static LIVE: [Part; PARTS] = [const { Part(Lock::new(None)) }; PARTS];
const PARTS: usize = 32;

/// The number of live plans that await their first execution.
static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// The configurations of plans that are not finalized, by the plan's address.
static CONFIGURATIONS: Lock<Option<HashMap<usize, usize>>> = Lock::new(None);
/// More plans than are built at the same time.
const MAX_CONFIGURATIONS: usize = 4096;

/// The ids of graphs, by the address of the content. `None` if the graph cannot be stored.
type Ids = HashMap<usize, (Arc<Content>, Option<Arc<str>>)>;
static IDS: Lock<Option<Ids>> = Lock::new(None);
/// More graphs than a program plans at the same time.
const MAX_IDS: usize = 1024;

/// Returns whether a plan awaits its first execution, which needs the content of the variant pack.
#[inline]
pub(super) fn is_any_awaited() -> bool {
    AWAITED.load(Ordering::Relaxed) > 0
}

fn live(plan: Raw) -> &'static Lock<Option<HashMap<usize, Live>>> {
    let spread = (plan.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let [first, ..] = &LIVE;
    &LIVE.get(spread as usize % PARTS).unwrap_or(first).0
}

/// Returns the id of a content's graph, and writes the graph if it is new.
fn graph_id(state: &State, content: &Arc<Content>) -> Option<Arc<str>> {
    let Some(graph) = shadow::graph_of(content) else {
        let label = shadow::describe(content).unwrap_or_default();
        incomplete(state, &label, &Obstacle::Unseen.to_string());
        return None;
    };
    let address = Arc::as_ptr(graph).addr();
    let known = IDS.lock()?.as_ref().and_then(|ids| ids.get(&address).map(|(_, id)| id.clone()));
    if let Some(known) = known {
        return known;
    }
    let label = shadow::describe(graph).unwrap_or_default();
    let id = match nodes::graph(graph) {
        Ok(nodes) => {
            let id = nodes.id();
            GRAPHS.write(&id, |_| {
                state.output.write(&Record::Graph(GraphRecord { graph: id.clone(), label, nodes }));
            })?;
            Some(Arc::from(id))
        }
        Err(reason) => {
            incomplete(state, &label, &reason);
            None
        }
    };
    let _former = {
        let mut ids = IDS.lock()?;
        let ids = ids.get_or_insert_default();
        let former = if ids.len() >= MAX_IDS { std::mem::take(ids) } else { Ids::new() };
        (former, ids.insert(address, (graph.clone(), id.clone())))
    };
    id
}

fn incomplete(state: &State, label: &str, reason: &str) {
    let _ordinal = INCOMPLETE.write(&(label, reason), |_| {
        let (label, reason) = (label.to_owned(), reason.to_owned());
        state.output.write(&Record::Incomplete(Incomplete { label, reason }));
    });
}

/// Returns the ordinal of the device that a plan or a query of the heuristics refers to, and writes the device if it is
/// new.
fn device(state: &State, content: &Arc<Content>) -> Option<usize> {
    let described = [Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP]
        .into_iter()
        .find_map(|name| content.child(name));
    let described = described.or_else(|| {
        let mut levels = std::iter::successors(Some(content), |content| shadow::toward_graph(content));
        levels.find_map(|content| content.child(Name::CUDNN_ATTR_ENGINE_DEVICEPROP))
    });
    let handle_in =
        |content: &Content, name| content.elements(name).and_then(|bytes| Handle::all_in(bytes.as_slice()).next());
    let description = match described {
        Some(device) => match device.elements(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION) {
            Some(text) => text.as_slice().to_vec(),
            None => description_of(state, handle_in(device, Name::CUDNN_ATTR_DEVICEPROP_HANDLE)?),
        },
        None => {
            let of_graph = || handle_in(shadow::graph_of(content)?, Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
            let handle = handle_in(content, Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE).or_else(of_graph)?;
            description_of(state, handle)
        }
    };
    let description = String::from_utf8_lossy(&description).trim_end_matches('\0').to_owned();
    DEVICES.write(&description, |device| {
        state.output.write(&Record::Device(Device { device, description: description.clone() }));
    })
}

fn description_of(state: &State, handle: Handle) -> Vec<u8> {
    let description = hide_errors(&state.cudnn, || trial::run(|| state.cudnn.device_of(handle)));
    description.map(|description| description.to_vec()).unwrap_or_default()
}

/// Records that the heuristics have returned this number of proposals.
pub(super) fn proposed(state: &State, heuristics: Raw, count: usize) {
    let Some(content) = shadow::content(heuristics) else { return };
    let Some(graph) = graph_id(state, &content) else { return };
    let mode = content.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE).unwrap_or(-1);
    let device = device(state, &content);
    let _ordinal = PROPOSALS.write(&(&graph, device, mode, count), |_| {
        state.output.write(&Record::Proposals(Proposals { graph: graph.to_string(), device, mode, count }));
    });
}

/// Remembers the configuration of a plan.
pub(super) fn configured(plan: Raw, configuration: Raw) {
    if let Some(mut all) = CONFIGURATIONS.lock() {
        let all = all.get_or_insert_default();
        if all.len() >= MAX_CONFIGURATIONS {
            all.clear();
        }
        all.insert(plan.addr(), configuration.addr());
    }
}

/// Returns the configuration that a plan was given, if the program has not changed or destroyed it since.
fn configuration_of(plan: Raw, content: &Content) -> Option<Raw> {
    let address = CONFIGURATIONS.lock()?.as_mut()?.remove(&plan.addr())?;
    let configuration: Raw = std::ptr::with_exposed_provenance_mut(address);
    let set = content.child(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?;
    let current = shadow::content(configuration)?;
    (Arc::ptr_eq(set, &current) && current.is_finalized).then_some(configuration)
}

/// Records a plan that was finalized or refused. Returns `false` if its graph cannot be stored.
pub(super) fn finalized(state: &State, plan: Raw, status: Status, duration: Duration) -> bool {
    let is_success = status == Status::CUDNN_STATUS_SUCCESS;
    // This comes first, because the layer's own calls replace the text.
    let reason = if is_success { None } else { reason(&state.cudnn) };
    let stored = store(state, plan, status, reason, duration);
    let is_stored = stored.is_some();
    let _former = {
        let Some(mut live) = live(plan).lock() else { return is_stored };
        let live = live.get_or_insert_default();
        let former = match stored.filter(|_| is_success) {
            Some(stored) => {
                let awaits_execution = stored.executions.load(Ordering::Relaxed) == 0;
                AWAITED.fetch_add(usize::from(awaits_execution), Ordering::Relaxed);
                live.insert(plan.addr(), Live { stored, awaits_execution })
            }
            None => live.remove(&plan.addr()),
        };
        forgotten(former.as_ref());
        former
    };
    is_stored
}

fn store(state: &State, plan: Raw, status: Status, reason: Option<String>, duration: Duration) -> Option<Arc<Stored>> {
    let content = shadow::content(plan)?;
    let graph = graph_id(state, &content)?;
    let device = device(state, &content);
    let configuration = configuration_of(plan, &content);
    let (choice, workspace) = hide_errors(&state.cudnn, || {
        trial::run(|| {
            // SAFETY: the configuration is finalized and live, according to the shadow.
            let choice = configuration.map(|configuration| unsafe { Choice::read(&state.cudnn, configuration) });
            let mut size = [0_i64];
            let name = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
            let count = match status {
                // SAFETY: the program has just finalized the plan.
                Status::CUDNN_STATUS_SUCCESS => unsafe {
                    read(&state.cudnn, plan, name, Type::CUDNN_TYPE_INT64, &mut size)
                },
                failed => Err(failed),
            };
            let [size] = size;
            (choice.unwrap_or_default(), (count == Ok(1)).then_some(size))
        })
    });
    let engine = choice.engine.map(|index| engine(index, &choice));
    let knobs: Option<Vec<(&String, &i64)>> = engine.as_ref().map(|engine| engine.knobs.iter().collect());
    let key = (&graph, device, status.0, choice.engine, knobs);
    let ordinal = PLANS.write(&key, |ordinal| {
        state.output.write(&Record::Plan(Plan {
            plan: ordinal,
            graph: graph.to_string(),
            device,
            status: status_name(status),
            reason,
            engine: engine.clone(),
            proposal: shadow::place(&content),
            workspace,
            build_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        }));
    })?;
    let mut all = STORED.lock()?;
    let stored = all.get_or_insert_default().entry(ordinal);
    let new = || Stored { ordinal, graph, executions: AtomicU64::new(0), written: AtomicU64::new(0) };
    Some(stored.or_insert_with(|| Arc::new(new())).clone())
}

fn engine(index: i64, choice: &Choice) -> Engine {
    let numerical = choice.numerical_notes.iter().map(|note| vocabulary::numerical_note(*note));
    let behavior = choice.behavior_notes.iter().map(|note| vocabulary::behavior_note(*note));
    Engine {
        index,
        knobs: choice.knobs.iter().map(|(knob, value)| (Engine::knob_name(*knob), *value)).collect(),
        notes: numerical.chain(behavior).collect(),
    }
}

/// Forgets a descriptor that is about to be destroyed.
pub(super) fn destroyed(plan: Raw) {
    let _configuration = CONFIGURATIONS.lock().and_then(|mut all| all.as_mut()?.remove(&plan.addr()));
    let former = live(plan).lock().and_then(|mut live| live.as_mut()?.remove(&plan.addr()));
    forgotten(former.as_ref());
}

fn forgotten(live: Option<&Live>) {
    if live.is_some_and(|live| live.awaits_execution) {
        AWAITED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Programs that make the variant pack before the plan may make another one for a later execution.
const MAX_AWAITED: u64 = 8;

/// Counts a successful execution. Returns the plan if its first execution should be recorded. If the variant pack was
/// made while no plan awaited an execution, the record waits for the next one.
pub(super) fn executed(state: &State, plan: Raw, is_pack_known: impl FnOnce() -> bool) -> Option<Arc<Stored>> {
    let is_complete = !is_any_awaited() || is_pack_known();
    let (executions, written, first) = {
        let mut live = live(plan).lock()?;
        let live = live.as_mut()?.get_mut(&plan.addr())?;
        let executions = live.stored.executions.fetch_add(1, Ordering::Relaxed) + 1;
        let is_first = live.awaits_execution && (is_complete || executions >= MAX_AWAITED);
        if is_first {
            live.awaits_execution = false;
            AWAITED.fetch_sub(1, Ordering::Relaxed);
        } else if !executions.is_power_of_two() {
            return None;
        }
        let written = executions > 1 && executions.is_power_of_two();
        (executions, written.then(|| live.stored.clone()), is_first.then(|| live.stored.clone()))
    };
    if let Some(stored) = written {
        write_count(state, &stored, executions);
    }
    first
}

/// Returns the stored plan of a descriptor if it awaits its first execution.
pub(super) fn awaited(plan: Raw) -> Option<Arc<Stored>> {
    let live = live(plan).lock()?;
    live.as_ref()?.get(&plan.addr()).filter(|live| live.awaits_execution).map(|live| live.stored.clone())
}

/// Returns the stored plan of a descriptor.
pub(super) fn stored(plan: Raw) -> Option<Arc<Stored>> {
    live(plan).lock()?.as_ref()?.get(&plan.addr()).map(|live| live.stored.clone())
}

fn write_count(state: &State, stored: &Stored, executions: u64) {
    if stored.written.fetch_max(executions, Ordering::Relaxed) < executions {
        state.output.write(&Record::Count(Count { plan: stored.ordinal, executions }));
    }
}

/// Writes the numbers of executions that are not in the capture yet.
pub(super) fn write_counts(state: &State) {
    let stored: Vec<Arc<Stored>> =
        STORED.lock().and_then(|all| all.as_ref().map(|all| all.values().cloned().collect())).unwrap_or_default();
    for stored in stored {
        let executions = stored.executions.load(Ordering::Relaxed);
        if executions > 1 {
            write_count(state, &stored, executions);
        }
    }
}

static ALL: [&Once; 5] = [&GRAPHS, &INCOMPLETE, &DEVICES, &PROPOSALS, &PLANS];

/// Takes the locks before a fork.
pub(super) fn before_fork() {
    ALL.iter().for_each(|once| once.before_fork());
    STORED.hold_for_fork();
    LIVE.iter().for_each(|part| _ = part.0.hold_for_fork());
    CONFIGURATIONS.hold_for_fork();
    IDS.hold_for_fork();
}

/// Releases the locks in the parent after a fork.
pub(super) fn after_fork() {
    IDS.release_after_fork();
    CONFIGURATIONS.release_after_fork();
    LIVE.iter().for_each(|part| part.0.release_after_fork());
    STORED.release_after_fork();
    ALL.iter().for_each(|once| once.after_fork());
}

/// Releases the locks in the child after a fork, and forgets everything, because the child writes another file.
pub(super) fn in_child() {
    IDS.release_in_child(None);
    CONFIGURATIONS.release_in_child(None);
    LIVE.iter().for_each(|part| part.0.release_in_child(None));
    STORED.release_in_child(None);
    ALL.iter().for_each(|once| once.in_child());
    AWAITED.store(0, Ordering::Relaxed);
    let _ids = IDS.lock().map(|mut ids| ids.take());
    let _stored = STORED.lock().map(|mut stored| stored.take());
    LIVE.iter().for_each(|part| drop(part.0.lock().map(|mut live| live.take())));
}
