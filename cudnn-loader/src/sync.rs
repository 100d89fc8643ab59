//! What the two protocols, [`crate::slot`] and [`crate::elected`], stand on: atomics, a thread's identity, and waiting.
//! The model in `model/` puts loom's in this module's place, so that the very same files are checked.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// This thread of this process, as one number that is not 0: the process in the upper half.
pub(crate) fn thread_token() -> u64 {
    // SAFETY: the call takes nothing and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::from(std::process::id()) << 32 | (thread as u64 & 0xffff_ffff)
}

/// A thread's readiness to wait for another, which ends after a second.
pub(crate) struct Backoff {
    start: Instant,
    pause: Duration,
}

impl Backoff {
    /// How long a thread waits for the elected one before it does the work itself.
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Backoff { start: Instant::now(), pause: Duration::from_micros(20) }
    }

    /// Waits a moment; `false` when patience has run out.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        self.start.elapsed() < Self::TIMEOUT
    }
}

/// The lock, unless another thread keeps it for longer than patience lasts; which it does for ever in a child that was forked
/// while it had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let mut patience = Backoff::new();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if patience.wait() => {}
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}
