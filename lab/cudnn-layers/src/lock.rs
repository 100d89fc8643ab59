//! A spin lock with a time limit, for sections of a few nanoseconds.
//!
//! Sections may allocate, but must not call other code. Threads stop waiting after a limit, or immediately in a signal
//! handler that interrupts the thread's own section. The next thread that takes the lock finds an empty value because
//! an update is missing: no record is better than a wrong one.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::lock::Backoff;
use cudnn_os::threads::mark;

/// Threads continue without the lock after this time. It is long because forking a large process takes a while.
const LIMIT: Duration = Duration::from_secs(1);
/// The number of attempts before a thread sleeps.
const SPINS: u32 = 200;

pub(crate) struct Lock<T> {
    /// The [mark](cudnn_os::threads::mark) of the thread that holds the lock, or 0.
    holder: AtomicUsize,
    /// A thread continued without the lock, so the value may be missing an update.
    was_missed: AtomicBool,
    is_held_for_fork: AtomicBool,
    /// See [`keeping`](Lock::keeping).
    is_kept: bool,
    value: UnsafeCell<ManuallyDrop<T>>,
}

/// A lock that is held across forks, so that it is free in the child.
pub(crate) trait HeldAtFork: Sync {
    /// Takes the lock before a fork, so that no thread changes the value while the system copies the memory.
    fn hold(&self);

    /// Releases the lock after a fork, if it was taken for the fork.
    fn release(&self);

    /// Releases the lock in the child. If another thread of the parent held it, the value may be inconsistent. The
    /// child then leaks it and starts with an empty one.
    fn release_in_child(&self);

    /// Empties the value in the child. It leaks, because an allocator may not work yet.
    fn leak_in_child(&self);
}

impl<T> Drop for Lock<T> {
    /// Drops the value, or leaks it in a child that was forked while a thread changed it.
    fn drop(&mut self) {
        if *self.holder.get_mut() == 0 {
            // SAFETY: the value is not used again.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

// SAFETY: `holder` ensures that only one thread at a time accesses the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock {
            holder: AtomicUsize::new(0),
            was_missed: AtomicBool::new(false),
            is_held_for_fork: AtomicBool::new(false),
            is_kept: false,
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Returns a lock for a value without addresses of descriptors or handles, which therefore stays valid if a thread
    /// continues without the lock.
    pub(crate) const fn keeping(value: T) -> Self {
        let mut lock = Lock::new(value);
        lock.is_kept = true;
        lock
    }

    #[inline]
    fn try_take(&self) -> bool {
        self.holder.compare_exchange(0, mark(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Returns whether this thread is the holder, or the holder kept an earlier thread waiting too long.
    fn is_waiting_in_vain(&self, holder: usize) -> bool {
        holder == mark() || self.was_missed.load(Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self) -> bool {
        let mut backoff = Backoff::with_limit(LIMIT);
        let mut spins = 0;
        loop {
            let holder = self.holder.load(Ordering::Relaxed);
            if holder == 0 && self.try_take() {
                return true;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let _guard = ThreadStateGuard::new();
            if self.is_waiting_in_vain(holder) || !backoff.wait() {
                self.was_missed.store(true, Ordering::Relaxed);
                return false;
            }
        }
    }
}

impl<T: Default> Lock<T> {
    /// Acquires the lock, or returns `None` if another thread holds it for too long.
    #[inline]
    pub(crate) fn lock(&self) -> Option<Guard<'_, T>> {
        if !self.try_take() && !self.wait() {
            return None;
        }
        let mut guard = Guard { lock: self, outdated: None };
        if self.was_missed.load(Ordering::Relaxed) {
            guard.empty_after_miss();
        }
        Some(guard)
    }

    pub(crate) fn hold_for_fork(&self) -> bool {
        let Some(guard) = self.lock() else { return false };
        self.is_held_for_fork.store(true, Ordering::Relaxed);
        std::mem::forget(guard);
        true
    }
}

impl<T: Default + Send> HeldAtFork for Lock<T> {
    fn hold(&self) {
        self.hold_for_fork();
    }

    fn release(&self) {
        if self.is_held_for_fork.swap(false, Ordering::Relaxed) {
            self.holder.store(0, Ordering::Release);
        }
    }

    fn release_in_child(&self) {
        self.release();
        if self.holder.load(Ordering::Relaxed) != 0 {
            // SAFETY: no other thread exists, and the old value is not read.
            unsafe { *self.value.get() = ManuallyDrop::new(T::default()) };
            self.holder.store(0, Ordering::Release);
        }
    }

    fn leak_in_child(&self) {
        // SAFETY: no other thread exists, and the old value is not read.
        unsafe { *self.value.get() = ManuallyDrop::new(T::default()) };
        self.was_missed.store(false, Ordering::Relaxed);
        self.is_held_for_fork.store(false, Ordering::Relaxed);
        self.holder.store(0, Ordering::Release);
    }
}

pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// Dropped after the lock is released.
    outdated: Option<Box<T>>,
}

impl<T: Default> Guard<'_, T> {
    #[cold]
    fn empty_after_miss(&mut self) {
        self.lock.was_missed.store(false, Ordering::Relaxed);
        if !self.lock.is_kept {
            self.outdated = Some(Box::new(std::mem::take(&mut **self)));
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_up_leaves_the_lock_to_its_holder() {
        let lock = Lock::new(());
        let holder = lock.lock();
        // A thread does not wait if an earlier one has waited in vain.
        lock.was_missed.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| scope.spawn(|| assert!((0..2).all(|_| lock.lock().is_none()))).join().unwrap());
        drop(holder);
        assert!(lock.lock().is_some());
    }

    #[test]
    fn a_thread_does_not_wait_for_itself() {
        let lock = Lock::new(());
        let _guard = lock.lock();
        let holder = lock.holder.load(Ordering::Relaxed);
        assert!(lock.is_waiting_in_vain(holder));
        std::thread::scope(|scope| scope.spawn(|| assert!(!lock.is_waiting_in_vain(holder))).join().unwrap());
    }

    #[test]
    fn a_record_with_a_missed_update_is_emptied_once() {
        for (lock, expected) in [(Lock::new(7), 0), (Lock::keeping(7), 7)] {
            let holder = lock.lock();
            lock.was_missed.store(true, Ordering::Relaxed);
            assert!(lock.lock().is_none());
            drop(holder);
            assert_eq!(lock.lock().as_deref(), Some(&expected));
            *lock.lock().unwrap() = 8;
            assert_eq!(lock.lock().as_deref(), Some(&8));
        }
    }
}
