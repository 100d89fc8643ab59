//! Records the first execution of each plan: the layout of the variant pack, and small values in host memory.

use std::ffi::c_void;
use std::sync::Arc;

use cudnn_graph::{Graph, Node};
use cudnn_store::captures::{ExecutionRecord, Record, Tensor, hexadecimal};
use cudnn_sys::types::cudnnStatus_t as Status;

use super::State;
use super::driver::{self, MemoryFunctions, MemoryKind};
use super::layout::{AddressRange, buffers};
use super::plans::LivePlan;
use crate::last_error::own_calls;
use crate::program_memory;
use crate::shadow;
use crate::shadow::calls::raw;
use crate::shadow::content::Content;
use crate::shadow::elements::Name;
use crate::wrappers::{Call, Id};
use crate::written::WrittenRecords;

pub(super) static EXECUTIONS: WrittenRecords = WrittenRecords::new();

/// Records an execution that has returned, unless the capture contains one with this plan and status.
pub(super) fn record(state: &State, call: &Call<'_>, live: &LivePlan, status: Status) {
    let _ordinal = EXECUTIONS.write(&(live.stored.ordinal, status.0), |_| {
        let [handle, plan, pack] = call.bits();
        let driver = driver::loaded();
        // After a failure, the handle may be invalid.
        let is_success = status == Status::CUDNN_STATUS_SUCCESS;
        let in_cuda_graph =
            call.function != Id::CudnnBackendExecute || is_success && is_capturing(state, driver, handle);
        let known = shadow::content(raw(plan)).zip(shadow::content(raw(pack)));
        let layout = known.and_then(|(plan, pack)| layout(driver, &live.graph, &plan, &pack, status));
        let (tensors, workspace) = layout.unwrap_or_default();
        let (plan, status) = (live.stored.ordinal, status.into());
        state.output.write(&Record::Execution(ExecutionRecord { plan, status, in_cuda_graph, tensors, workspace }))
    });
}

fn is_capturing(state: &State, driver: Option<&MemoryFunctions>, handle: u64) -> bool {
    let (Some(driver), Some(stream)) = (driver, stream(state, handle)) else { return false };
    driver.is_capturing(stream)
}

/// Returns the stream of a handle that cuDNN has accepted or is about to check.
pub(super) fn stream(state: &State, handle: u64) -> Option<*mut c_void> {
    let mut stream = std::ptr::null_mut();
    let get = state.cudnn.cudnnGetStream()?;
    let handle = std::ptr::with_exposed_provenance_mut(handle as usize);
    // SAFETY: the program executes a plan with the handle, and the pointer is valid for writes.
    let status = own_calls(&state.cudnn, || unsafe { get(handle, &raw mut stream) });
    (status == Status::CUDNN_STATUS_SUCCESS).then_some(stream.cast())
}

type Layout = (Vec<Tensor>, Option<cudnn_store::captures::Memory>);

fn layout(
    driver: Option<&MemoryFunctions>,
    graph: &Arc<Content>,
    plan: &Content,
    pack: &Content,
    status: Status,
) -> Option<Layout> {
    let graph = shadow::graph(graph).ok()?;
    let (uids, pointers) = pack_of(pack)?;
    let mut ranges: Vec<AddressRange> = Vec::new();
    // The tensors with indices in `ranges`, or `None` for null pointers.
    let mut tensors: Vec<(i64, Option<usize>, Option<String>)> = Vec::new();
    for (uid, address) in uids.into_iter().zip(pointers) {
        if address == 0 {
            tensors.push((uid, None, None));
            continue;
        }
        let (range, value) = memory(driver, &graph, uid, address, status);
        tensors.push((uid, Some(ranges.len()), value));
        ranges.push(range);
    }
    let workspace = pack.number(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE).map(i64::cast_unsigned);
    let workspace = workspace.filter(|address| *address != 0);
    let workspace = workspace.map(|address| {
        let size = plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
        let span = size.and_then(|size| u64::try_from(size).ok());
        ranges.push(AddressRange { address, span, is_host: false });
        ranges.len() - 1
    });
    let memory = buffers(&ranges);
    let at = |place: Option<usize>| memory.get(place?).cloned();
    let tensors = tensors.into_iter().map(|(uid, place, value)| Tensor { uid, memory: at(place), value });
    Some((tensors.collect(), at(workspace)))
}

/// Returns the range of a tensor, and small values in host memory as hexadecimal text.
fn memory(
    driver: Option<&MemoryFunctions>,
    graph: &Graph,
    uid: i64,
    address: u64,
    status: Status,
) -> (AddressRange, Option<String>) {
    let node = graph.tensor(uid);
    let span = node.and_then(Node::span);
    let is_by_value = node.is_some_and(Node::is_by_value);
    let place = match driver {
        Some(driver) if !is_by_value => driver.place(address),
        _ => None,
    };
    let is_host = is_by_value || matches!(place, Some(MemoryKind::RegisteredHost | MemoryKind::Unregistered));
    // After a success, cuDNN has read the scalars. A kernel may be writing to other memory.
    let is_readable = is_by_value && status == Status::CUDNN_STATUS_SUCCESS;
    let copy = |span| program_memory::copy(address, usize::try_from(span).ok()?);
    let value = span.filter(|_| is_readable).and_then(copy).map(|bytes| hexadecimal(&bytes));
    (AddressRange { address, span, is_host }, value)
}

/// Returns the ids and addresses of a variant pack, if they are certain.
pub(super) fn pack_of(pack: &Content) -> Option<(Vec<i64>, Vec<u64>)> {
    let [uids, pointers] = pack.variant_pack()?;
    let uids = uids.iter().map(|uid| i64::from_ne_bytes(*uid)).collect();
    Some((uids, pointers.iter().map(|pointer| u64::from_ne_bytes(*pointer)).collect()))
}
