//! Checks the loader's lock-free types with loom, in every possible thread order and under every result that the memory
//! model allows.
//!
//! `gate.rs`, `once.rs`, `slot.rs` and `turn.rs` are the loader's own files. The module `primitives` below replaces
//! `cudnn-loader/src/sync/primitives.rs`.
#![cfg(test)]

#[path = "../../src/sync"]
mod sync {
    pub(crate) mod gate;
    pub(crate) mod once;
    pub(crate) mod slot;
    pub(crate) mod turn;

    pub(crate) mod primitives {
        pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

        loom::thread_local! {
            static TOKEN: std::cell::Cell<u64> = std::cell::Cell::new(0);
        }

        /// Assigns a number to the running thread of the model, in process 1.
        pub(crate) fn set_thread_token(thread: u64) {
            TOKEN.with(|token| token.set(1 << 32 | thread));
        }

        pub(crate) fn thread_token() -> u64 {
            TOKEN.with(std::cell::Cell::get)
        }

        /// Waits once, before the last attempt, which is enough because the model tries every order anyway.
        pub(crate) struct Backoff(bool);

        impl Backoff {
            pub(crate) fn new() -> Self {
                Backoff(true)
            }

            pub(crate) fn wait(&mut self) -> bool {
                loom::thread::yield_now();
                std::mem::take(&mut self.0)
            }
        }
    }
}

use sync::gate::Gate;
use sync::once::{Made, RaceOnce};
use sync::primitives::{Ordering, set_thread_token};
use sync::slot::Slot;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;

/// Memory that one thread writes and another reads, synchronized only by the protocol under test. Loom fails the test
/// if the reader could miss the write.
struct Memory(loom::cell::UnsafeCell<u32>);

// SAFETY: loom checks the accesses.
unsafe impl Sync for Memory {}

/// Returns memory to which this thread has written 7.
fn written() -> Memory {
    let memory = Memory::new();
    memory.write(7);
    memory
}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        Memory(loom::cell::UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom fails the test if another thread accesses it without synchronization.
        self.0.with_mut(|memory| unsafe { *memory = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|memory| unsafe { *memory })
    }
}

#[test]
fn a_thread_that_sees_a_functions_address_sees_its_loaded_library() {
    loom::model(|| {
        let library = Arc::new(Memory::new());
        let slot = Arc::new(Slot::new(std::ptr::null_mut()));
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
fn threads_that_race_share_one_complete_value() {
    loom::model(|| {
        let once: &'static RaceOnce<Memory> = Box::leak(Box::new(RaceOnce::new()));
        let made = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (1..=2)
            .map(|thread| {
                let made = made.clone();
                loom::thread::spawn(move || {
                    set_thread_token(thread);
                    let value = once.get_or_init(|| {
                        made.fetch_add(1, Ordering::Relaxed);
                        written()
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
fn a_value_that_was_reset_is_made_again_and_the_old_one_stays_readable() {
    loom::model(|| {
        let once: &'static RaceOnce<Memory> = Box::leak(Box::new(RaceOnce::new()));
        set_thread_token(1);
        let old = once.get_or_init(written);
        let other = loom::thread::spawn(move || {
            set_thread_token(2);
            once.get_or_init(written).read()
        });
        once.reset(old);
        assert_eq!(old.read(), 7);
        assert_eq!(other.join().ok(), Some(7));
    });
}

#[test]
fn a_value_that_was_reset_can_be_published_again() {
    loom::model(|| {
        let once: &'static RaceOnce<Memory> = Box::leak(Box::new(RaceOnce::new()));
        set_thread_token(1);
        let old = once.get_or_init(written);
        once.reset(old);
        let other = loom::thread::spawn(move || {
            set_thread_token(2);
            once.get_or_make(|| Made::Again(old)).read()
        });
        assert_eq!(once.get_or_init(written).read(), 7);
        assert_eq!(other.join().ok(), Some(7));
    });
}

/// Two threads work inside the gate while a third, which models an exit or a fork, closes it. Once the third thread has
/// seen the gate empty, no work may be in progress, and no work may start later.
#[test]
fn a_closed_gate_that_was_empty_stays_empty() {
    loom::model(|| {
        let gate = Arc::new(Gate::new());
        let work = Arc::new(Memory::new());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let gate = gate.clone();
                let work = work.clone();
                loom::thread::spawn(move || {
                    if gate.try_enter() {
                        work.read();
                        gate.leave();
                    }
                })
            })
            .collect();
        gate.close();
        if gate.inside() == 0 {
            work.write(7);
        } else {
            gate.open();
        }
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    });
}
