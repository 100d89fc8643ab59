//! Provides a lock that records the owning thread, which allows limited waiting. A thread recognizes when it is the
//! owner, and a forked child takes over a lock if the owner exists only in the parent.

use super::primitives::{AtomicU64, Ordering};

/// A lock that at most one thread of a process holds.
pub(crate) struct Turn {
    /// The token of the owner; 0 for no owner.
    owner: AtomicU64,
}

impl Turn {
    /// Creates a lock without an owner.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Turn { owner: AtomicU64::new(0) }
    }

    /// Loom's atomics have no const constructor.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Turn { owner: AtomicU64::new(0) }
    }

    /// Returns the token of the owner, or 0 for no owner.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Ordering::Acquire)
    }

    /// Takes the lock for the thread with this token, unless a thread of the same process already holds it.
    pub(crate) fn try_take(&self, token: u64) -> Option<TurnGuard<'_>> {
        let taken = match self.owner.compare_exchange(0, token, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            // The owner was a thread of the parent process and will never finish in this forked child.
            Err(other) if process_of(other) != process_of(token) => {
                self.owner.compare_exchange(other, token, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            Err(_) => false,
        };
        // An unused guard would release the lock of a thread that tries to take it twice.
        taken.then(|| TurnGuard { owner: &self.owner, token })
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn give_to(&self, token: u64) {
        self.owner.store(token, Ordering::Relaxed);
    }
}

/// Holds the lock until it is dropped.
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
