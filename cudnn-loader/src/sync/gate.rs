//! Provides a gate that protects work from interruption. Threads enter and leave; a thread that closes the gate
//! prevents others from entering and can see when the last one has left. The gate itself never blocks: callers decide
//! how long to wait.

use super::primitives::{AtomicU64, Ordering};

/// The upper half counts closings and the lower half counts threads inside. A single number prevents threads from
/// entering between the closing and the check of who is inside.
pub(crate) struct Gate(AtomicU64);

const CLOSING: u64 = 1 << 32;

impl Gate {
    /// Creates an open, empty gate.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// Loom's atomics have no const constructor.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// Enters the gate, unless it is closed.
    pub(crate) fn try_enter(&self) -> bool {
        let enter = |state| (state < CLOSING).then(|| state + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok()
    }

    /// Enters the gate even if it is closed.
    #[cfg_attr(loom, allow(dead_code, reason = "the model waits"))]
    pub(crate) fn enter_anyway(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Leaves the gate, which this thread must have entered.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes the gate. If several threads close it, it opens when all of them have opened it.
    pub(crate) fn close(&self) {
        self.0.fetch_add(CLOSING, Ordering::AcqRel);
    }

    /// Reverts one call of [`Gate::close`].
    pub(crate) fn open(&self) {
        self.0.fetch_sub(CLOSING, Ordering::AcqRel);
    }

    /// Returns the number of threads inside.
    pub(crate) fn inside(&self) -> u64 {
        self.0.load(Ordering::Acquire) % CLOSING
    }

    /// Opens the gate and sets the number of threads inside, for a forked child, which has only the forking thread.
    #[cfg_attr(loom, allow(dead_code, reason = "the model does not fork"))]
    pub(crate) fn reset(&self, inside: u64) {
        self.0.store(inside, Ordering::Release);
    }
}
