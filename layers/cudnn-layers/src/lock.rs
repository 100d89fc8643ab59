//! A spin lock with a time limit, for sections of a few nanoseconds.
//!
//! Sections may allocate, but must not call other code. Threads stop waiting after a limit, and the lock can be held
//! across a fork so that the child finds it free: see [`hold_for_fork`](Lock::hold_for_fork).

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::cancel::ThreadStateGuard;

/// Threads continue without the lock after this time. It is long because forking a large process takes a while.
const LIMIT: Duration = Duration::from_secs(1);
/// Number of attempts before a thread sleeps.
const SPINS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);

pub(crate) struct Lock<T> {
    is_taken: AtomicBool,
    /// A thread continued without the lock, so the value may be missing an update.
    was_missed: AtomicBool,
    is_held_for_fork: AtomicBool,
    value: UnsafeCell<ManuallyDrop<T>>,
}

impl<T> Drop for Lock<T> {
    /// Drops the value. If a thread was changing it during a fork, the child leaks it instead.
    fn drop(&mut self) {
        if !*self.is_taken.get_mut() {
            // SAFETY: the value is not used again.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

// SAFETY: `is_taken` ensures that only one thread at a time accesses the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock {
            is_taken: AtomicBool::new(false),
            was_missed: AtomicBool::new(false),
            is_held_for_fork: AtomicBool::new(false),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Acquires the lock. Returns `None` if another thread holds it for too long.
    #[inline]
    pub(crate) fn lock(&self) -> Option<Guard<'_, T>> {
        // An unused guard would release the lock of another thread.
        (self.try_take() || self.wait()).then(|| Guard(self))
    }

    /// Returns whether a thread continued without the lock, and resets this flag.
    #[inline]
    pub(crate) fn take_missed(&self) -> bool {
        self.was_missed.load(Ordering::Relaxed) && self.was_missed.swap(false, Ordering::Relaxed)
    }

    /// Returns whether a thread has continued without the lock since [`take_missed`](Lock::take_missed) last reset the
    /// flag.
    pub(crate) fn was_missed(&self) -> bool {
        self.was_missed.load(Ordering::Relaxed)
    }

    /// Takes the lock before a fork, which prevents other threads from changing the value while the system copies the
    /// memory. Returns `false` on timeout.
    pub(crate) fn hold_for_fork(&self) -> bool {
        let Some(guard) = self.lock() else { return false };
        self.is_held_for_fork.store(true, Ordering::Relaxed);
        std::mem::forget(guard);
        true
    }

    /// Releases the lock after a fork, if it was taken for the fork.
    pub(crate) fn release_after_fork(&self) {
        if self.is_held_for_fork.swap(false, Ordering::Relaxed) {
            self.is_taken.store(false, Ordering::Release);
        }
    }

    /// Releases the lock in the forked child, which has only the calling thread. If another thread of the parent held
    /// the lock, the value may be inconsistent, so it is replaced and leaked.
    pub(crate) fn release_in_child(&self, replacement: T) {
        self.release_after_fork();
        if self.is_taken.load(Ordering::Relaxed) {
            // SAFETY: no other thread exists, and the old value is not read.
            unsafe { self.value.get().write(ManuallyDrop::new(replacement)) };
            self.is_taken.store(false, Ordering::Release);
        }
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) -> bool {
        let start = Instant::now();
        let mut spins = 0;
        loop {
            if !self.is_taken.load(Ordering::Relaxed) && self.try_take() {
                return true;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            // Waiting again is pointless, because the holder did not release the lock for an earlier thread.
            if self.was_missed.load(Ordering::Relaxed) || start.elapsed() > LIMIT {
                self.was_missed.store(true, Ordering::Relaxed);
                return false;
            }
            // Thread cancellation must not unwind from here.
            let _guard = ThreadStateGuard::new();
            std::thread::sleep(PAUSE);
        }
    }
}

pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_up_leaves_the_lock_to_its_holder() {
        let lock = Lock::new(());
        let holder = lock.lock();
        // A thread gives up at once if an earlier one has waited in vain.
        lock.was_missed.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            assert!(lock.lock().is_none());
        }
        drop(holder);
        assert!(lock.lock().is_some());
    }
}
