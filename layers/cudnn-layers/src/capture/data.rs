//! Stores the values of tensors before and after the first execution of a plan, for graphs that the user names.

use std::sync::atomic::{AtomicU64, Ordering};

use cudnn_capture_file::{Data, Record};
use cudnn_os::cancel::ThreadStateGuard;

use super::State;
use super::driver::{self, Place};
use super::execution::{pack_of, stream};
use super::layout::{span, tensor};
use super::nodes;
use super::plans::{self, Stored};
use crate::shadow;
use crate::shadow::calls::raw;
use crate::wrappers::{Call, Id};

/// The maximum number of bytes in a process.
const LIMIT: u64 = 1 << 30;

/// The number of bytes that are stored.
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Stores the values before the first execution of a plan.
pub(super) fn before(state: &State, call: &Call<'_>) {
    if state.data.is_empty() || !plans::is_any_awaited() {
        return;
    }
    // Thread cancellation must not unwind from here.
    let _guard = ThreadStateGuard::new();
    let [_, plan] = call.bits();
    if let Some(stored) = plans::awaited(raw(plan)) {
        store(state, call, &stored, false);
    }
}

/// Stores the values after the first execution of a plan.
pub(super) fn after(state: &State, call: &Call<'_>, stored: &Stored) {
    store(state, call, stored, true);
}

fn store(state: &State, call: &Call<'_>, stored: &Stored, is_after: bool) {
    let is_requested = state.data.iter().any(|id| id == "all" || **id == *stored.graph);
    // Other functions only add the work to a CUDA graph.
    if is_requested && call.function == Id::CudnnBackendExecute {
        let _stored = store_tensors(state, call, stored.ordinal, is_after);
    }
}

/// Stores the tensors in device memory whose size is known. Returns `None` if something is unknown.
fn store_tensors(state: &State, call: &Call<'_>, plan: usize, is_after: bool) -> Option<()> {
    let [handle, of_plan, pack] = call.bits();
    let (driver, stream) = (driver::loaded()?, stream(state, handle)?);
    // A copy would become part of the CUDA graph, or end its capture.
    if driver.is_capturing(stream) || !driver.synchronize(stream) {
        return None;
    }
    let graph = nodes::graph(shadow::graph_of(&shadow::content(raw(of_plan))?)?).ok()?;
    let pack = shadow::content(raw(pack))?;
    let (uids, pointers) = pack_of(&pack)?;
    for (uid, address) in uids.into_iter().zip(pointers) {
        let node = tensor(&graph, uid).filter(|node| address != 0 && !node.is_by_value());
        let Some(bytes) = node.and_then(span) else { continue };
        if driver.place(address) != Some(Place::Device) {
            continue;
        }
        if BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > LIMIT {
            state.host.error("no more values of tensors are captured, because the limit of 1 GiB is reached");
            return None;
        }
        let Some(values) = driver.copy(address, usize::try_from(bytes).ok()?, stream) else { continue };
        let moment = if is_after { "after" } else { "before" };
        let file = format!("plan-{plan}-tensor-{uid}-{moment}.bin");
        if state.output.write_data(&file, &values) {
            state.output.write(&Record::Data(Data { plan, execution: 1, uid, is_after, file, bytes }));
        }
    }
    Some(())
}
