//! A lock that nobody waits for without a limit: its owner is a thread of a process, so a thread knows its own turn, and
//! a forked child takes over the turn of a thread that exists in the parent alone.

use super::primitives::{AtomicU64, Ordering};

/// At most one thread of a process has it.
pub(crate) struct Turn {
    /// The token of the thread that has it; 0 for none.
    owner: AtomicU64,
}

impl Turn {
    /// Nobody's.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Turn { owner: AtomicU64::new(0) }
    }

    /// loom's atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Turn { owner: AtomicU64::new(0) }
    }

    /// The token of the thread that has it; 0 for none.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Ordering::Acquire)
    }

    /// Takes the turn for the thread with this token, unless another thread of its process has it, or itself.
    pub(crate) fn try_take(&self, token: u64) -> Option<TurnGuard<'_>> {
        let taken = match self.owner.compare_exchange(0, token, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            // The owner was a thread of the parent process when this process was forked: it will never finish here.
            Err(other) if process_of(other) != process_of(token) => {
                self.owner.compare_exchange(other, token, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            Err(_) => false,
        };
        taken.then_some(TurnGuard { owner: &self.owner, token })
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn give_to(&self, token: u64) {
        self.owner.store(token, Ordering::Relaxed);
    }
}

/// A thread's turn, which ends with this guard.
pub(crate) struct TurnGuard<'a> {
    owner: &'a AtomicU64,
    token: u64,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let _ = self.owner.compare_exchange(self.token, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn process_of(token: u64) -> u64 {
    token >> 32
}
