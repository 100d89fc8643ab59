//! Stores the values of tensors before and after requested executions.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudnn_graph::Graph;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_store::captures::{DataRecord, Record};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::driver::{self, MemoryFunctions, MemoryKind};
use super::execution::{self, pack_of, stream};
use super::file::data_file;
use super::plans::{self, LivePlan};
use super::{State, is_current};
use crate::shadow;
use crate::shadow::calls::raw;
use crate::shadow::elements::Raw;
use crate::wrappers::{Call, Id};

/// The maximum number of bytes that a process stores.
const LIMIT: u64 = 1 << 30;
static BYTES: AtomicU64 = AtomicU64::new(0);

pub(super) struct PendingExecution {
    plan: LivePlan,
    number: u64,
    stream: *mut c_void,
    tensors: Vec<Tensor>,
}

/// A tensor of the variant pack in device memory.
struct Tensor {
    uid: i64,
    address: u64,
    span: u64,
    before: Vec<u8>,
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
    let number = plan.stored.next_execution();
    if !state.data.iter().any(|request| request.selects(&plan.stored.graph, number)) {
        return None;
    }
    let (driver, stream) = (driver::loaded()?, stream(state, handle)?);
    // A copy would become part of the CUDA graph, or invalidate its capture.
    if driver.is_capturing(stream) || !driver.synchronize(stream) {
        return None;
    }
    let mut tensors = tensors(driver, &shadow::graph(&plan.graph).ok()?, raw(pack))?;
    if !is_within_limit(state, BYTES.load(Ordering::Relaxed), &tensors) {
        return None;
    }
    for tensor in &mut tensors {
        tensor.before = tensor.copy(driver, stream)?;
    }
    Some(PendingExecution { plan, number, stream, tensors })
}

/// Returns the tensors of a variant pack that can be read.
fn tensors(driver: &MemoryFunctions, graph: &Graph, pack: Raw) -> Option<Vec<Tensor>> {
    let (uids, addresses) = pack_of(shadow::content(pack)?.as_ref())?;
    let tensor = |(uid, address): (i64, u64)| {
        let node = graph.tensor(uid).filter(|node| address != 0 && !node.is_by_value())?;
        let is_readable = driver.place(address) == Some(MemoryKind::Device);
        Some(Tensor { uid, address, span: node.span().filter(|_| is_readable)?, before: Vec::new() })
    };
    Some(uids.into_iter().zip(addresses).filter_map(tensor).collect())
}

impl Tensor {
    fn copy(&self, driver: &MemoryFunctions, stream: *mut c_void) -> Option<Vec<u8>> {
        driver.copy(self.address, usize::try_from(self.span).ok()?, stream)
    }
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
    tensors.iter().try_fold(0_u64, |sum, tensor| sum.checked_add(tensor.span)?.checked_add(tensor.span))
}

/// Copies the tensors after a successful execution, and stores them.
pub(super) fn after(state: &State, call: &Call<'_>, pending: &PendingExecution) {
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let PendingExecution { plan, number, stream, tensors } = pending;
    let Some(driver) = driver::loaded().filter(|driver| driver.synchronize(*stream)) else { return };
    let Some(after) = tensors.iter().map(|tensor| tensor.copy(driver, *stream)).collect::<Option<Vec<_>>>() else {
        return;
    };
    execution::record(state, call, plan, Status::CUDNN_STATUS_SUCCESS);
    let stored = size(tensors).unwrap_or(0);
    if !is_within_limit(state, BYTES.fetch_add(stored, Ordering::Relaxed), tensors) {
        return;
    }
    let before = tensors.iter().map(|tensor| (tensor, false, &tensor.before));
    let after = tensors.iter().zip(&after).map(|(tensor, values)| (tensor, true, values));
    for (Tensor { uid, span, .. }, is_after, values) in before.chain(after) {
        let (plan, execution, uid) = (plan.stored.ordinal, *number, *uid);
        let file = data_file(plan, execution, uid, is_after);
        if !state.output.write_data(&file, values) {
            return;
        }
        state.output.write(&Record::Data(DataRecord { plan, execution, uid, is_after, file, bytes: *span }));
    }
}

pub(super) fn in_child() {
    BYTES.store(0, Ordering::Relaxed);
}
