//! Locks a mutex with a time limit, and identifies the owners of locks.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::os::threads;

/// Returns a number greater than 1 for this thread and process, with the process in the upper half. A forked child
/// recognizes threads of its parent by it.
pub fn thread_token() -> u64 {
    u64::from(std::process::id()) << 32 | u64::from(threads::id())
}

/// Locks the mutex, or returns `None` if the time limit expires. The limit matters in a forked child, where a lock that
/// another thread of the parent held is never released. A poisoned mutex is locked like any other.
pub fn lock_within<T>(mutex: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    // Most owners release the lock sooner than this thread could fall asleep.
    for _ in 0..200 {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    let start = Instant::now();
    let mut pause = Duration::from_micros(20);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() < limit => std::thread::sleep(pause),
            Err(TryLockError::WouldBlock) => return None,
        }
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}
