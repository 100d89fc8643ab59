//! What the two protocols, [`crate::slot`] and [`crate::elected`], stand on: atomics, a thread's identity, and waiting.
//! The model in `model/` puts loom's in this module's place, so that the very same files are checked.

use std::ptr;
use std::time::{Duration, Instant};

use crate::elected::Elected;
use crate::slot::Slot;

pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

impl Slot {
    /// A slot that leads to the function's resolver.
    pub(crate) const fn new(resolver: *mut ()) -> Self {
        Slot(AtomicPtr::new(resolver))
    }
}

impl<T> Elected<T> {
    /// Nothing made yet, and nobody making it.
    pub(crate) const fn new() -> Self {
        Elected { value: AtomicPtr::new(ptr::null_mut()), maker: AtomicU64::new(0) }
    }
}

/// This thread of this process, as one number that is not 0: the process in the upper half.
pub(crate) fn identity() -> u64 {
    // SAFETY: the call takes nothing and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    u64::from(std::process::id()) << 32 | (thread as u64 & 0xffff_ffff)
}

/// A thread's readiness to wait for another, which ends after a second.
pub(crate) struct Patience {
    start: Instant,
    pause: Duration,
}

impl Patience {
    /// How long a thread waits for the elected one before it does the work itself.
    pub(crate) const LIMIT: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Patience { start: Instant::now(), pause: Duration::from_micros(20) }
    }

    /// Waits a moment; `false` when patience has run out.
    pub(crate) fn wait(&mut self) -> bool {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        self.start.elapsed() < Self::LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn sixty_four_threads_make_it_once() {
        static VALUE: Elected<usize> = Elected::new();
        static MADE: AtomicUsize = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let value = VALUE.get_or_make(|| {
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
        static VALUE: Elected<u32> = Elected::new();
        let start = std::time::Instant::now();
        let value = VALUE.get_or_make(|| VALUE.get_or_make(|| 1) + 1);
        assert_eq!(*value, 1);
        assert!(start.elapsed() < Patience::LIMIT);
    }

    #[test]
    fn a_maker_that_never_comes_back_is_replaced() {
        static VALUE: Elected<u32> = Elected::new();
        VALUE.maker.store(identity() ^ 1, Ordering::Relaxed);
        assert_eq!(*VALUE.get_or_make(|| 3), 3);
    }

    #[test]
    fn a_maker_of_the_parent_process_is_not_waited_for() {
        static VALUE: Elected<u32> = Elected::new();
        VALUE.maker.store(identity() ^ (1 << 32), Ordering::Relaxed);
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_make(|| 3), 3);
        assert!(start.elapsed() < Patience::LIMIT);
    }

    #[test]
    fn a_maker_that_unwinds_gives_up_its_place() {
        static VALUE: Elected<u32> = Elected::new();
        let unwound = std::panic::catch_unwind(|| VALUE.get_or_make(|| std::panic::resume_unwind(Box::new(()))));
        assert!(unwound.is_err());
        let start = std::time::Instant::now();
        assert_eq!(*VALUE.get_or_make(|| 3), 3);
        assert!(start.elapsed() < Patience::LIMIT);
    }
}
