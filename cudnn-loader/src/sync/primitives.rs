//! The basis of the lock-free types: atomics, a thread's identity, and bounded waiting. The model in `model/` replaces
//! this file with loom's types, so that it checks the very files `once.rs` and `slot.rs`.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cudnn_os::lock::lock_within;
use cudnn_os::threads;

/// This thread of this process as one nonzero number, with the process in the upper half.
pub(crate) fn thread_token() -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(threads::id())
}

/// Bounded waiting: pauses that grow from 20 µs to 1 ms, until the time is up.
pub(crate) struct Backoff {
    start: Instant,
    pause: Duration,
    limit: Duration,
}

impl Backoff {
    /// The time that a thread waits for another before it does the work itself.
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

    /// Waits for [`Backoff::TIMEOUT`] in all.
    pub(crate) fn new() -> Self {
        Backoff::with_limit(Self::TIMEOUT)
    }

    /// Waits for this time in all.
    pub(crate) fn with_limit(limit: Duration) -> Self {
        Backoff { start: Instant::now(), pause: Duration::from_micros(20), limit }
    }

    /// Waits a moment. `false` when the time is up.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        self.start.elapsed() < self.limit
    }
}

/// Takes the lock, or returns `None` after a second. In a child of `fork`, a lock that another thread of the parent had
/// is never released.
pub fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    lock_within(mutex, Backoff::TIMEOUT)
}
