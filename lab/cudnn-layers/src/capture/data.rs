//! Stores requested values of tensors before and after executions. The values of every candidate are copied, and files
//! are written after the decision.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudnn_graph::{Graph, Node};
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::memory::MAX_COPY;
use cudnn_store::captures::{DataRecord, Record};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::driver::{self, MemoryFunctions, MemoryKind};
use super::execution::{self, pack_of, stream};
use super::file::data_file;
use super::options::Trigger;
use super::plans::{self, LivePlan};
use super::values;
use super::{State, is_current};
use crate::lock::Lock;
use crate::program_memory;
use crate::shadow;
use crate::shadow::calls::raw;
use crate::shadow::elements::Raw;
use crate::wrappers::{Call, Id};

/// The maximum number of bytes that a process stores.
const LIMIT: u64 = 1 << 30;
static BYTES: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
pub(super) struct Progress {
    /// Includes failed executions.
    executions: u64,
    has_nan: bool,
    has_mismatch: bool,
    outputs: BTreeMap<u64, u64>,
}

/// By the ordinal of the plan.
pub(super) static PROGRESS: Lock<BTreeMap<usize, Progress>> = Lock::keeping(BTreeMap::new());
/// More distinct inputs than a program repeats.
const MAX_INPUTS: usize = 1 << 16;

pub(super) struct PendingExecution {
    plan: LivePlan,
    number: u64,
    /// Whether the number of the execution is requested.
    is_requested: bool,
    is_for_nan: bool,
    is_for_mismatch: bool,
    graph: Graph,
    stream: *mut c_void,
    tensors: Vec<Tensor>,
    /// Whether all tensors can be read.
    is_complete: bool,
}

/// A readable tensor of the variant pack.
struct Tensor {
    uid: i64,
    address: u64,
    span: u64,
    /// The values before the execution, or `None` for scalars in host memory, which are read later.
    before: Option<Vec<u8>>,
    is_output: bool,
}

pub(super) fn before(state: &State, call: &Call<'_>) -> Option<PendingExecution> {
    // Other functions only add the work to a CUDA graph.
    if state.data.is_empty() || call.function != Id::CudnnBackendExecute || !is_current(state) {
        return None;
    }
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let [handle, plan, pack] = call.bits();
    let plan = plans::live(raw(plan))?;
    let selected = state.data.iter().filter(|request| request.selects(&plan.stored.graph));
    let triggers: Vec<Trigger> = selected.map(|request| request.trigger).collect();
    let (number, is_for_nan, is_for_mismatch) = {
        let mut all = PROGRESS.lock()?;
        let progress = all.entry(plan.stored.ordinal).or_default();
        progress.executions += 1;
        let is_for_nan = triggers.contains(&Trigger::Nan) && !progress.has_nan;
        let is_for_mismatch = triggers.contains(&Trigger::Mismatch) && !progress.has_mismatch;
        (progress.executions, is_for_nan, is_for_mismatch)
    };
    let is_requested = triggers.contains(&Trigger::Execution(number));
    if !is_requested && !is_for_nan && !is_for_mismatch {
        return None;
    }
    let (driver, stream) = (driver::loaded()?, stream(state, handle)?);
    // A copy would become part of the CUDA graph, or invalidate its capture.
    if driver.is_capturing(stream) || !driver.synchronize(stream) {
        return None;
    }
    let graph = shadow::graph(&plan.graph).ok()?;
    let (mut tensors, is_complete) = tensors(driver, &graph, raw(pack))?;
    if !is_within_limit(state, BYTES.load(Ordering::Relaxed), &tensors) {
        return None;
    }
    for tensor in tensors.iter_mut().filter(|tensor| tensor.before.is_some()) {
        tensor.before = Some(driver.copy(tensor.address, usize::try_from(tensor.span).ok()?, stream)?);
    }
    Some(PendingExecution {
        plan,
        number,
        is_requested,
        is_for_nan,
        is_for_mismatch,
        graph,
        stream,
        tensors,
        is_complete,
    })
}

/// Returns the tensors of a variant pack, and whether all can be read.
fn tensors(driver: &MemoryFunctions, graph: &Graph, pack: Raw) -> Option<(Vec<Tensor>, bool)> {
    let (uids, addresses) = pack_of(shadow::content(pack)?.as_ref())?;
    let operations = graph.operations();
    let outputs: Vec<i64> = operations.iter().flat_map(|operation| graph.outputs(operation)).collect();
    let (mut tensors, mut is_complete) = (Vec::new(), true);
    for (uid, address) in uids.into_iter().zip(addresses).filter(|(_, address)| *address != 0) {
        let Some(node) = graph.tensor(uid) else { continue };
        let is_readable = node.is_by_value() || driver.place(address) == Some(MemoryKind::Device);
        match node.span().filter(|span| is_readable && (!node.is_by_value() || *span <= MAX_COPY as u64)) {
            Some(span) => {
                let before = (!node.is_by_value()).then(Vec::new);
                tensors.push(Tensor { uid, address, span, before, is_output: outputs.contains(&uid) });
            }
            None => is_complete = false,
        }
    }
    Some((tensors, is_complete))
}

/// Returns whether the values may be stored in addition to `bytes`.
fn is_within_limit(state: &State, bytes: u64, tensors: &[Tensor]) -> bool {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    let is_within = size(tensors).is_some_and(|size| bytes.saturating_add(size) <= LIMIT);
    if !is_within && !IS_REPORTED.swap(true, Ordering::Relaxed) {
        state.host.error("values of tensors are missing in the capture, because the limit of 1 GiB is reached");
    }
    is_within
}

fn size(tensors: &[Tensor]) -> Option<u64> {
    let stored = tensors.iter().filter(|tensor| tensor.before.is_some());
    stored.map(|tensor| tensor.span).try_fold(0_u64, |sum, span| sum.checked_add(span)?.checked_add(span))
}

/// Copies the tensors after a successful execution, and stores the requested values.
pub(super) fn after(state: &State, call: &Call<'_>, candidate: &PendingExecution) {
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let Some(driver) = driver::loaded().filter(|driver| driver.synchronize(candidate.stream)) else { return };
    let mut values = Vec::with_capacity(candidate.tensors.len());
    for tensor in &candidate.tensors {
        let Ok(bytes) = usize::try_from(tensor.span) else { return };
        let copy = match tensor.before {
            Some(_) => driver.copy(tensor.address, bytes, candidate.stream),
            None => program_memory::copy(tensor.address, bytes),
        };
        let Some(copy) = copy else { return };
        values.push(copy);
    }
    let (has_nan, has_mismatch) = (candidate.has_nan(&values), candidate.has_mismatch(&values));
    if !candidate.is_requested && !has_nan && !has_mismatch {
        return;
    }
    execution::record(state, call, &candidate.plan, Status::CUDNN_STATUS_SUCCESS);
    let stored = size(&candidate.tensors).unwrap_or(0);
    if !is_within_limit(state, BYTES.fetch_add(stored, Ordering::Relaxed), &candidate.tensors) {
        return;
    }
    if let Some(mut all) = PROGRESS.lock()
        && let Some(progress) = all.get_mut(&candidate.plan.stored.ordinal)
    {
        progress.has_nan |= has_nan;
        progress.has_mismatch |= has_mismatch;
    }
    let before = candidate.tensors.iter().filter_map(|tensor| Some((tensor, false, tensor.before.as_ref()?)));
    let after = candidate.tensors.iter().zip(&values).filter(|(tensor, _)| tensor.before.is_some());
    let after = after.map(|(tensor, values)| (tensor, true, values));
    for (tensor, is_after, values) in before.chain(after) {
        let (plan, execution, uid) = (candidate.plan.stored.ordinal, candidate.number, tensor.uid);
        let file = data_file(plan, execution, uid, is_after);
        if !state.output.write_data(&file, values) {
            return;
        }
        state.output.write(&Record::Data(DataRecord { plan, execution, uid, is_after, file, bytes: tensor.span }));
    }
}

impl PendingExecution {
    /// Returns the tensors that the execution reads or writes, with their values.
    fn values<'a>(&'a self, after: &'a [Vec<u8>], written: bool) -> impl Iterator<Item = (&'a Node, &'a [u8])> {
        self.tensors.iter().zip(after).filter(move |(tensor, _)| tensor.is_output == written).filter_map(
            move |(it, after)| {
                let values = if written { after } else { it.before.as_ref().unwrap_or(after) };
                Some((self.graph.tensor(it.uid)?, values.as_slice()))
            },
        )
    }

    /// Returns whether the execution has produced NaNs or infinities from finite values.
    fn has_nan(&self, after: &[Vec<u8>]) -> bool {
        // A tensor that could not be read may have contained the NaN.
        let are_finite = |written| self.values(after, written).all(|(tensor, bytes)| values::are_finite(tensor, bytes));
        self.is_for_nan && self.is_complete && are_finite(false) && !are_finite(true)
    }

    /// Returns whether an earlier execution with the same inputs returned different outputs.
    fn has_mismatch(&self, after: &[Vec<u8>]) -> bool {
        if !self.is_for_mismatch || !self.is_complete {
            return false;
        }
        let mut inputs = DefaultHasher::new();
        self.values(after, false).for_each(|(tensor, bytes)| values::hash(tensor, bytes, &mut inputs));
        if self.graph.reads_outputs() {
            let outputs = self.tensors.iter().filter(|tensor| tensor.is_output);
            for (node, bytes) in outputs.filter_map(|it| Some((self.graph.tensor(it.uid)?, it.before.as_ref()?))) {
                values::hash(node, bytes, &mut inputs);
            }
        }
        let mut outputs = DefaultHasher::new();
        self.values(after, true).for_each(|(tensor, bytes)| values::hash(tensor, bytes, &mut outputs));
        let Some(mut all) = PROGRESS.lock() else { return false };
        let progress = all.entry(self.plan.stored.ordinal).or_default();
        let has_room = progress.outputs.len() < MAX_INPUTS;
        match progress.outputs.entry(inputs.finish()) {
            Entry::Occupied(known) => *known.get() != outputs.finish(),
            Entry::Vacant(unknown) if has_room => {
                unknown.insert(outputs.finish());
                false
            }
            Entry::Vacant(_) => false,
        }
    }
}

pub(super) fn in_child() {
    BYTES.store(0, Ordering::Relaxed);
}
