//! A gate before work that must not be interrupted. Threads enter and leave; whoever closes the gate lets no other
//! thread in, and sees when the last one has left. It never blocks: waiting, and for how long, is the caller's part.

use super::primitives::{AtomicU64, Ordering};

/// The number of closings in the upper half, the number of threads inside in the lower half. One number, so that a
/// thread cannot enter between a closing and the closer's look at who is inside.
pub(crate) struct Gate(AtomicU64);

const CLOSING: u64 = 1 << 32;

impl Gate {
    /// Open, with nobody inside.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// loom's atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Gate(AtomicU64::new(0))
    }

    /// Enters, unless the gate is closed.
    pub(crate) fn try_enter(&self) -> bool {
        let enter = |state| (state < CLOSING).then(|| state + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, enter).is_ok()
    }

    /// Enters even if the gate is closed.
    #[cfg_attr(loom, allow(dead_code, reason = "the model waits"))]
    pub(crate) fn enter_anyway(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Leaves. The thread has entered.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes the gate. Several threads may close it; it opens when each has opened it.
    pub(crate) fn close(&self) {
        self.0.fetch_add(CLOSING, Ordering::AcqRel);
    }

    /// Takes back one [`Gate::close`].
    pub(crate) fn open(&self) {
        self.0.fetch_sub(CLOSING, Ordering::AcqRel);
    }

    /// The number of threads inside.
    pub(crate) fn inside(&self) -> u64 {
        self.0.load(Ordering::Acquire) % CLOSING
    }

    /// Opens the gate with this number of threads inside. For a child of `fork`, which has only the forking thread.
    #[cfg_attr(loom, allow(dead_code, reason = "the model does not fork"))]
    pub(crate) fn reset(&self, inside: u64) {
        self.0.store(inside, Ordering::Release);
    }
}
