//! How slots and elections begin, as constants for statics. Apart from their own files, which the model shares: loom's
//! atomics are no constants.

use std::ptr;

use crate::elected::RaceOnce;
use crate::slot::Slot;
use crate::sync::{AtomicPtr, AtomicU64};

impl Slot {
    /// A slot that leads to the function's resolver.
    pub(crate) const fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }
}

impl<T> RaceOnce<T> {
    /// Nothing made yet, and nobody making it.
    pub(crate) const fn new() -> Self {
        RaceOnce { value: AtomicPtr::new(ptr::null_mut()), owner: AtomicU64::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::sync::{Backoff, thread_token};

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
    fn a_thread_that_needs_the_value_to_make_the_value_does_not_wait_for_itself() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        let start = std::time::Instant::now();
        let value = VALUE.get_or_init(|| VALUE.get_or_init(|| 1) + 1);
        assert_eq!(*value, 1);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }

    #[test]
    fn a_maker_that_never_comes_back_is_replaced() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        VALUE.owner.store(thread_token() ^ 1, Ordering::Relaxed);
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
    }

    #[test]
    fn a_maker_of_the_parent_process_is_not_waited_for() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        VALUE.owner.store(thread_token() ^ (1 << 32), Ordering::Relaxed);
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }

    #[test]
    fn a_maker_that_unwinds_gives_up_its_place() {
        static VALUE: RaceOnce<u32> = RaceOnce::new();
        let unwound = std::panic::catch_unwind(|| VALUE.get_or_init(|| std::panic::resume_unwind(Box::new(()))));
        assert!(unwound.is_err());
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_init(|| 3), 3);
        assert!(start.elapsed() < Backoff::TIMEOUT);
    }
}
