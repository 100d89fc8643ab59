//! A lock for sections of some nanoseconds, which allocate and call nothing else. Nobody waits for it without a limit,
//! and a fork finds it free: see [`hold_for_fork`](Lock::hold_for_fork).

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::cancel::ThreadStateGuard;

/// A thread that does not get the lock in this time goes on without it. A fork of a large process takes a while.
const LIMIT: Duration = Duration::from_secs(1);
/// Attempts before a thread sleeps.
const SPINS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);

pub(crate) struct Lock<T> {
    is_taken: AtomicBool,
    /// A thread went on without the lock: the value lacks what that thread would have recorded.
    was_missed: AtomicBool,
    is_held_for_fork: AtomicBool,
    value: UnsafeCell<ManuallyDrop<T>>,
}

impl<T> Drop for Lock<T> {
    /// Frees the value, unless a thread that a child of a fork does not have was changing it.
    fn drop(&mut self) {
        if !*self.is_taken.get_mut() {
            // SAFETY: this is the last use of the value.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

// SAFETY: `is_taken` lets one thread at a time use the value.
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

    /// `None` if another thread does not release the lock in time.
    #[inline]
    pub(crate) fn lock(&self) -> Option<Guard<'_, T>> {
        (self.try_take() || self.wait()).then_some(Guard(self))
    }

    /// Whether a thread went on without the lock, since this was last asked.
    #[inline]
    pub(crate) fn take_missed(&self) -> bool {
        self.was_missed.load(Ordering::Relaxed) && self.was_missed.swap(false, Ordering::Relaxed)
    }

    /// Whether a thread has ever gone on without the lock, unless [`take_missed`](Lock::take_missed) has returned that.
    pub(crate) fn was_missed(&self) -> bool {
        self.was_missed.load(Ordering::Relaxed)
    }

    /// Takes the lock before a fork, so that no thread is inside while the system copies the memory.
    /// `false` if a thread does not leave it in time.
    pub(crate) fn hold_for_fork(&self) -> bool {
        let Some(guard) = self.lock() else { return false };
        self.is_held_for_fork.store(true, Ordering::Relaxed);
        std::mem::forget(guard);
        true
    }

    /// Releases the lock after a fork, if it was taken for that.
    pub(crate) fn release_after_fork(&self) {
        if self.is_held_for_fork.swap(false, Ordering::Relaxed) {
            self.is_taken.store(false, Ordering::Release);
        }
    }

    /// The same in the child, whose only thread calls this. If a thread of the parent was inside, the value may be
    /// inconsistent: this replaces it, and never frees it.
    pub(crate) fn release_in_child(&self, replacement: T) {
        self.release_after_fork();
        if self.is_taken.load(Ordering::Relaxed) {
            // SAFETY: no other thread exists. The old value is not read.
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
            // Whoever did not release it for another thread does not do it for this one.
            if self.was_missed.load(Ordering::Relaxed) || start.elapsed() > LIMIT {
                self.was_missed.store(true, Ordering::Relaxed);
                return false;
            }
            // No cancellation of the thread may unwind from here.
            let _guard = ThreadStateGuard::new();
            std::thread::sleep(PAUSE);
        }
    }
}

pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}
