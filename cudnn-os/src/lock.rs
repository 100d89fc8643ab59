//! Waits with a time limit, and identifies the owners of locks.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::os::threads;

/// Returns a number greater than 1 for this thread and process, with the process in the upper half, so that a forked
/// child recognizes threads of its parent.
pub fn thread_token() -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(threads::id())
}

/// Waits in pauses that grow from 20 µs to 1 ms, until a time limit is reached.
///
/// A loop that attempts something after every pause always makes its last attempt after the limit. Otherwise, a process
/// that was stopped for a while could give up although the attempt would now succeed.
pub struct Backoff {
    start: Instant,
    pause: Duration,
    limit: Duration,
    /// Whether the limit was reached before the last attempt.
    is_over: bool,
}

impl Backoff {
    /// The time that a thread waits for another one before it continues without it.
    pub const TIMEOUT: Duration = Duration::from_secs(1);

    /// Creates a backoff with a total limit of [`Backoff::TIMEOUT`].
    #[allow(clippy::new_without_default, reason = "the time starts now")]
    pub fn new() -> Self {
        Backoff::with_limit(Self::TIMEOUT)
    }

    /// Creates a backoff with this total limit.
    pub fn with_limit(limit: Duration) -> Self {
        Backoff { start: Instant::now(), pause: Duration::from_micros(20), limit, is_over: false }
    }

    /// Sleeps for the next pause, and returns `true` for another attempt. Returns `false` if the limit had been reached
    /// before the last attempt.
    pub fn wait(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        self.is_over = self.start.elapsed() >= self.limit;
        true
    }
}

/// Locks the mutex, even if it is poisoned, or returns `None` after the time limit. The limit matters in a forked
/// child, where a lock that another thread of the parent held is never released.
pub fn lock_within<T>(mutex: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    // Most owners release the lock sooner than this thread could fall asleep.
    for _ in 0..200 {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    let mut backoff = Backoff::with_limit(limit);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if backoff.wait() => {}
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_follows_the_last_pause() {
        let mutex = Mutex::new(());
        let mut holder = mutex.try_lock().ok();
        let mut backoff = Backoff::with_limit(Duration::ZERO);
        while backoff.wait() {
            drop(holder.take());
        }
        assert!(holder.is_none() && !backoff.wait());
    }
}
