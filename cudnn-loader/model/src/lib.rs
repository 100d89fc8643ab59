//! The loader's two lock-free protocols, checked with loom: every order in which threads can run, and every value that
//! the memory model lets them see.
//!
//! The files are the loader's own, included as they are; `sync` below stands in for `cudnn-loader/src/sync.rs`.
#![cfg(test)]

#[path = "../../src/elected.rs"]
mod elected;
#[path = "../../src/slot.rs"]
mod slot;

mod sync {
    use std::ptr;

    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use crate::elected::RaceOnce;

    impl<T> RaceOnce<T> {
        pub(crate) fn new() -> Self {
            RaceOnce { value: AtomicPtr::new(ptr::null_mut()), owner: AtomicU64::new(0) }
        }
    }

    loom::thread_local! {
        static IDENTITY: std::cell::Cell<u64> = std::cell::Cell::new(0);
    }

    /// Gives the running thread of the model a number, in process 1.
    pub(crate) fn be(thread: u64) {
        IDENTITY.with(|identity| identity.set(1 << 32 | thread));
    }

    pub(crate) fn thread_token() -> u64 {
        IDENTITY.with(std::cell::Cell::get)
    }

    /// Backoff for one look: the model tries every order anyway.
    pub(crate) struct Backoff(bool);

    impl Backoff {
        #[allow(dead_code, reason = "for the loader's own tests")]
        pub(crate) const TIMEOUT: std::time::Duration = std::time::Duration::MAX;

        pub(crate) fn new() -> Self {
            Backoff(true)
        }

        pub(crate) fn wait(&mut self) -> bool {
            loom::thread::yield_now();
            std::mem::take(&mut self.0)
        }
    }
}

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;

/// Memory that one thread writes and another reads, unordered but for the protocol under test: loom fails the test
/// where the reader may not see the write.
struct Memory(loom::cell::UnsafeCell<u32>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        Memory(loom::cell::UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom fails the test where another thread accesses it unordered.
        self.0.with_mut(|memory| unsafe { *memory = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|memory| unsafe { *memory })
    }
}

#[test]
fn whoever_sees_a_function_s_address_sees_its_loaded_library() {
    loom::model(|| {
        let library = Arc::new(Memory::new());
        let slot = Arc::new(slot::Slot(sync::AtomicPtr::new(std::ptr::null_mut())));
        let loader = {
            let (library, slot) = (library.clone(), slot.clone());
            loom::thread::spawn(move || {
                library.write(7);
                slot.set(std::ptr::dangling_mut());
            })
        };
        if !slot.get().is_null() {
            assert_eq!(library.read(), 7);
        }
        assert!(loader.join().is_ok());
    });
}

#[test]
fn threads_that_race_share_one_value_wholly_written() {
    loom::model(|| {
        let elected: &'static elected::RaceOnce<Memory> = Box::leak(Box::new(elected::RaceOnce::new()));
        let made = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (1..=2)
            .map(|thread| {
                let made = made.clone();
                loom::thread::spawn(move || {
                    sync::be(thread);
                    let value = elected.get_or_init(|| {
                        made.fetch_add(1, sync::Ordering::Relaxed);
                        let memory = Memory::new();
                        memory.write(7);
                        memory
                    });
                    assert_eq!(value.read(), 7);
                    std::ptr::from_ref(value) as usize
                })
            })
            .collect();
        let values: Vec<_> = threads.into_iter().map(|thread| thread.join().ok()).collect();
        assert!(values.iter().all(|value| value.is_some() && *value == values.first().copied().flatten()));
    });
}

#[test]
fn a_forgotten_value_is_made_anew_and_the_old_one_stays_readable() {
    loom::model(|| {
        let elected: &'static elected::RaceOnce<Memory> = Box::leak(Box::new(elected::RaceOnce::new()));
        sync::be(1);
        let make = || {
            let memory = Memory::new();
            memory.write(7);
            memory
        };
        let old = elected.get_or_init(make);
        let other = loom::thread::spawn(move || {
            sync::be(2);
            elected.get_or_init(make).read()
        });
        elected.reset(old);
        assert_eq!(old.read(), 7);
        assert_eq!(other.join().ok(), Some(7));
    });
}
