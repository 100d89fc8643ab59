//! A mutex that is never waited for without end.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// Takes the lock, or returns `None` when the time is up. In a child of `fork`, a lock that another thread of the parent had
/// is never released. A poisoned lock is taken.
pub fn lock_within<T>(mutex: &Mutex<T>, limit: Duration) -> Option<MutexGuard<'_, T>> {
    // Most owners are done before a thread could fall asleep.
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
