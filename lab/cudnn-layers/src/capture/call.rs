//! Counts calls outside the backend API that start work on the device or search for an algorithm.

use std::sync::atomic::{AtomicU64, Ordering};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_store::captures::{CallRecord, Record, is_search};

use super::State;
use crate::wrappers::{Id, starts_work};

struct Count {
    calls: AtomicU64,
    /// The calls that the capture contains.
    written: AtomicU64,
}

/// The calls of this process by function.
static COUNTS: [Count; Id::ALL.len()] =
    [const { Count { calls: AtomicU64::new(0), written: AtomicU64::new(0) } }; Id::ALL.len()];

pub(super) fn is_counted(function: Id) -> bool {
    !function.name().starts_with("cudnnBackend") && (starts_work(function) || is_search(function.name()))
}

/// Counts a call. Programs repeat these calls at every step, so few of them write a record.
pub(super) fn count(state: &State, function: Id) {
    let Some(count) = COUNTS.get(function as usize) else { return };
    let calls = count.calls.fetch_add(1, Ordering::Relaxed) + 1;
    if calls.is_power_of_two() {
        let _guard = ThreadStateGuard::new();
        write(state, function, count, calls);
    }
}

/// Writes the calls since the last records.
pub(super) fn write_last(state: &State) {
    for (function, count) in Id::ALL.iter().zip(&COUNTS) {
        write(state, *function, count, count.calls.load(Ordering::Relaxed));
    }
}

fn write(state: &State, function: Id, count: &Count, calls: u64) {
    let written = count.written.fetch_max(calls, Ordering::Relaxed);
    if written < calls {
        state.output.write(&Record::Call(CallRecord { function: function.name().to_owned(), calls: calls - written }));
    }
}

pub(super) fn in_child() {
    for number in COUNTS.iter().flat_map(|count| [&count.calls, &count.written]) {
        number.store(0, Ordering::Relaxed);
    }
}
