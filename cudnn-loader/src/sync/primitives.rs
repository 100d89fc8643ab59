//! Provides atomics, thread identities and bounded waiting for the lock-free types. To check the original `once.rs` and
//! `slot.rs`, the model in `model/` replaces this file with loom's types.

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cudnn_os::lock::lock_within;
pub(crate) use cudnn_os::lock::thread_token;

/// Waits in pauses that grow from 20 µs to 1 ms, until a time limit is reached.
pub(crate) struct Backoff {
    start: Instant,
    pause: Duration,
    limit: Duration,
}

impl Backoff {
    /// The time that a thread waits before it does the work itself.
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

    /// Creates a backoff with a total limit of [`Backoff::TIMEOUT`].
    pub(crate) fn new() -> Self {
        Backoff::with_limit(Self::TIMEOUT)
    }

    /// Creates a backoff with this total limit.
    pub(crate) fn with_limit(limit: Duration) -> Self {
        Backoff { start: Instant::now(), pause: Duration::from_micros(20), limit }
    }

    /// Sleeps for the next pause. Returns `false` when the time limit is reached.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        self.start.elapsed() < self.limit
    }
}

/// Takes the lock, or returns `None` after a second. In a forked child, a lock that another thread of the parent held
/// is never released.
pub fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    lock_within(mutex, Backoff::TIMEOUT)
}
