//! A value that one thread makes and all others share, without a lock.
//!
//! The first thread claims the work; the others wait, so that a library is opened once and not sixty-four times. No
//! thread waits for ever: the owner may itself wait for a lock of a waiting thread (ld.so's lock, which is taken while
//! static constructors run), or may not exist any more (after `fork`). A thread whose time is up makes the value
//! itself, and the first one to publish wins. That is harmless here: opening a library twice returns the same library.
//!
//! `once_cell::race::OnceBox` is the nearest type of another crate. It cannot make other threads wait for the owner,
//! and cannot retry a failure as [`RaceOnce::reset`] does.

use std::ptr;

use super::primitives::{AtomicPtr, Backoff, Ordering, thread_token};
use super::turn::Turn;

/// A value that is made on first use and kept until the process ends.
pub(crate) struct RaceOnce<T: 'static> {
    /// Null, or a leaked box. It is never freed, so references to it stay valid.
    value: AtomicPtr<T>,
    /// The thread that makes the value now has it.
    turn: Turn,
}

impl<T> RaceOnce<T> {
    /// No value, no owner.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        RaceOnce { value: AtomicPtr::new(ptr::null_mut()), turn: Turn::new() }
    }

    /// loom's atomics are no constants.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        RaceOnce { value: AtomicPtr::new(ptr::null_mut()), turn: Turn::new() }
    }
}

impl<T: Send + Sync> RaceOnce<T> {
    /// The value, if it has been published.
    pub(crate) fn get(&self) -> Option<&'static T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a stored pointer comes from `Box::into_raw` and is never freed; Acquire pairs with the Release of
        // `publish`, so the value behind it is complete.
        unsafe { value.as_ref() }
    }

    /// The value, made by this thread or by another.
    pub(crate) fn get_or_init(&self, init: impl Fn() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let token = thread_token();
        // The guard ends the turn also when `init` unwinds: no thread may wait for an owner that does not return.
        if let Some(_turn) = self.turn.try_take(token) {
            return self.get().unwrap_or_else(|| self.publish(init()));
        }
        self.wait(token).unwrap_or_else(|| self.publish(init()))
    }

    /// Removes the value, so that the next use makes it again. References to it stay valid: the value is leaked.
    pub(crate) fn reset(&self, value: &'static T) {
        let value = ptr::from_ref(value).cast_mut();
        // Only this value: another thread may have published a new one meanwhile.
        let _ = self.value.compare_exchange(value, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Publishes this value in place of any other. References to that stay valid: it is leaked.
    #[cfg_attr(loom, allow(dead_code, reason = "a store, as the slot's"))]
    pub(crate) fn replace(&self, value: T) {
        self.value.store(Box::into_raw(Box::new(value)), Ordering::Release);
    }

    /// Waits for the value. `None` when waiting is useless: this thread is the owner (a constructor of the library that
    /// it opens called back), there is no owner any more, or the time is up.
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

    /// Publishes a value that this thread made, or drops it for the one that another thread published first.
    fn publish(&self, value: T) -> &'static T {
        let made = Box::into_raw(Box::new(value));
        match self.value.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `made` comes from `Box::into_raw` just above and is never freed from here on.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: no other thread has seen `made`.
                drop(unsafe { Box::from_raw(made) });
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
    fn sixty_four_threads_make_it_once() {
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
    fn an_owner_in_the_parent_process_is_not_waited_for() {
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
