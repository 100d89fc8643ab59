//! Provides a lock-free cell with a value that one thread creates and all threads share.
//!
//! The first thread creates the value while the others wait. A library is therefore opened once rather than sixty-four
//! times. Waiting is limited, because the owner may itself wait for a lock that a waiting thread holds, such as ld.so's
//! lock in a static constructor. After `fork`, the owner may not even exist. A thread that reaches the limit creates
//! the value itself, and the first thread to publish wins. This is harmless because opening a library twice returns the
//! same library.
//!
//! `once_cell::race::OnceBox` is the closest existing type. However, it cannot make other threads wait for the owner or
//! retry a failure as [`RaceOnce::reset`] does.

use std::ptr;

use super::primitives::{AtomicPtr, Backoff, Ordering, thread_token};
use super::turn::Turn;

/// A value to publish.
pub(crate) enum Made<T: 'static> {
    New(T),
    /// A value that was published before.
    Again(&'static T),
}

/// A value that is created on first use and never freed.
pub(crate) struct RaceOnce<T: 'static> {
    /// Null, or a leaked box. Never freed, because references to it must remain valid.
    value: AtomicPtr<T>,
    /// Held by the thread that is creating the value.
    turn: Turn,
}

impl<T> RaceOnce<T> {
    /// Creates an empty cell.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        RaceOnce { value: AtomicPtr::new(ptr::null_mut()), turn: Turn::new() }
    }

    /// Loom's atomics have no const constructor.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        RaceOnce { value: AtomicPtr::new(ptr::null_mut()), turn: Turn::new() }
    }
}

impl<T: Send + Sync> RaceOnce<T> {
    /// Returns the value, if it has been published.
    pub(crate) fn get(&self) -> Option<&'static T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a stored pointer comes from `Box::into_raw` and is never freed; Acquire pairs with the Release of
        // `publish`, so the value behind it is complete.
        unsafe { value.as_ref() }
    }

    /// Returns the value, which this thread creates if necessary.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &'static T {
        self.get_or_make(|| Made::New(init()))
    }

    /// Returns the value, which this thread creates or publishes again if necessary.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Made<T>) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let token = thread_token();
        // The guard also releases the turn if `make` unwinds. Otherwise, threads would wait for an owner that never
        // returns.
        if let Some(_turn) = self.turn.try_take(token) {
            return self.get().unwrap_or_else(|| self.publish(make()));
        }
        self.wait(token).unwrap_or_else(|| self.publish(make()))
    }

    /// Removes the value and makes the next use create a new one. The old value is leaked to keep references to it
    /// valid.
    pub(crate) fn reset(&self, value: &'static T) {
        let value = ptr::from_ref(value).cast_mut();
        // Remove only this value, because another thread may have published a new one.
        let _ = self.value.compare_exchange(value, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Replaces the value. The old value is leaked to keep references to it valid.
    #[cfg_attr(loom, allow(dead_code, reason = "a store, as the slot's"))]
    pub(crate) fn replace(&self, value: T) {
        self.value.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }

    /// Waits for the value. Returns `None` if waiting is useless: the time is up, the owner is gone, or this thread is
    /// the owner itself because a constructor of the library that it is opening called back.
    fn wait(&self, token: u64) -> Option<&'static T> {
        let mut backoff = Backoff::new();
        while self.get().is_none() {
            let owner = self.turn.owner();
            if owner == token || owner == 0 || !backoff.wait() {
                break;
            }
        }
        self.get()
    }

    /// Publishes this thread's value, or drops it if another thread published first.
    fn publish(&self, made: Made<T>) -> &'static T {
        let (value, is_new) = match made {
            Made::New(value) => (Box::into_raw(Box::new(value)), true),
            Made::Again(value) => (ptr::from_ref(value).cast_mut(), false),
        };
        match self.value.compare_exchange(ptr::null_mut(), value, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the value is a leaked box, which is never freed after this point.
            Ok(_) => unsafe { &*value },
            Err(first) => {
                if is_new {
                    // SAFETY: no other thread has seen the box.
                    drop(unsafe { Box::from_raw(value) });
                }
                // SAFETY: a published pointer is never freed (see `get`).
                unsafe { &*first }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn sixty_four_threads_initialize_the_value_once() {
        static VALUE: RaceOnce<usize> = RaceOnce::new();
        static MADE: AtomicUsize = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let value = VALUE.get_or_init(|| {
                        std::thread::sleep(Duration::from_millis(20));
                        MADE.fetch_add(1, Ordering::Relaxed)
                    });
                    assert_eq!(*value, 0);
                });
            }
        });
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_thread_that_needs_the_value_while_making_it_does_not_wait_for_itself() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        let start = std::time::Instant::now();
        let value = VALUE.get_or_init(|| VALUE.get_or_init(|| 1) + 1);
        assert_eq!(*value, 1);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }

    #[test]
    fn an_owner_that_never_returns_is_replaced() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        VALUE.turn.give_to(thread_token() ^ 1);
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
    }

    #[test]
    fn threads_do_not_wait_for_an_owner_in_the_parent_process() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        VALUE.turn.give_to(thread_token() ^ (1 << 32));
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }

    #[test]
    fn an_owner_that_unwinds_releases_its_claim() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        let unwound = std::panic::catch_unwind(|| VALUE.get_or_init(|| std::panic::resume_unwind(Box::new(()))));
        assert!(unwound.is_err());
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }
}
