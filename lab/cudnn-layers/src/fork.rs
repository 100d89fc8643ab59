//! Prepares all layers for forks.
//!
//! When a layer starts, it registers locks, and functions to call in forked children. All locks are held during a fork,
//! so that the child finds consistent values. A child of a raw system call, which bypasses the C library's handlers, is
//! recognized when it first reaches a layer.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_os::append_file::uninterrupted;
use cudnn_os::fork::{call_at_forks, prepare_word, word};
use once_cell::race::OnceRef;

use crate::lock::{HeldAtFork, Lock};

/// The effect of a fork on a part of a layer.
pub(crate) enum AtFork {
    /// The child inherits the value.
    Inherited(&'static dyn HeldAtFork),
    /// The child starts with an empty value, because it writes separate outputs.
    Emptied(&'static dyn HeldAtFork),
    /// The child calls this function, which must not take locks of other threads, load libraries or call cuDNN.
    InChild(fn()),
}

/// The order of taking locks before a fork. While one of them is held, only later ones may be taken.
#[derive(Clone, Copy)]
pub(crate) enum Rank {
    Capture,
    Errata,
    Explain,
    Plans,
    Trace,
    Tuned,
    Validate,
    Shadow,
    LastErrors,
}

/// The parts of each started layer, by rank.
static PARTS: [OnceRef<'static, &[AtFork]>; Rank::LastErrors as usize + 1] =
    [const { OnceRef::new() }; Rank::LastErrors as usize + 1];

/// Only one thread forks at a time.
static FORK: Lock<()> = Lock::new(());

thread_local! {
    /// Whether this thread holds [`FORK`].
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// The value of the per-process word (see [`word`]) in a prepared child. It is 0 in a new child.
const READY: u32 = 1;
const STARTING: u32 = 2;

/// Registers the parts of a layer, which are taken in this order.
pub(crate) fn take_part(rank: Rank, parts: &'static &'static [AtFork]) {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if let Some(listed) = PARTS.get(rank as usize) {
        let _ = listed.set(parts);
    }
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        prepare_word();
        word().store(READY, Ordering::Release);
        call_at_forks(before_fork, after_fork, in_child);
    }
}

/// Prepares this process if it is a child that the C library does not know. Layers call this before they use their
/// state, which costs one load per call. Otherwise, such a child would wait for locks that a thread of the parent held,
/// and would write to the parent's trace (both tested with a raw `clone`).
#[inline]
pub(crate) fn notice_child() {
    if word().load(Ordering::Acquire) != READY {
        await_child();
    }
}

const ATTEMPTS: u32 = 100_000;

#[cold]
fn await_child() {
    uninterrupted(|| {
        if word().compare_exchange(0, STARTING, Ordering::Acquire, Ordering::Acquire) == Ok(0) {
            start_child();
        } else {
            let is_starting = |_: &u32| word().load(Ordering::Acquire) == STARTING;
            (0..ATTEMPTS).take_while(is_starting).for_each(|_| std::thread::yield_now());
        }
    });
}

fn parts() -> impl DoubleEndedIterator<Item = &'static AtFork> {
    PARTS.iter().filter_map(OnceRef::get).flat_map(|parts| parts.iter())
}

unsafe extern "C" fn before_fork() {
    if FORK.hold_for_fork() {
        let _ = FORKS.try_with(|forks| forks.set(true));
        parts().for_each(|part| match part {
            AtFork::Inherited(lock) | AtFork::Emptied(lock) => lock.hold(),
            AtFork::InChild(_) => {}
        });
    }
}

unsafe extern "C" fn after_fork() {
    if FORKS.try_with(|forks| forks.replace(false)).unwrap_or(false) {
        parts().rev().for_each(|part| match part {
            AtFork::Inherited(lock) | AtFork::Emptied(lock) => lock.release(),
            AtFork::InChild(_) => {}
        });
        FORK.release();
    }
}

unsafe extern "C" fn in_child() {
    start_child();
}

fn start_child() {
    let _ = FORKS.try_with(|forks| forks.set(false));
    parts().rev().for_each(|part| match part {
        AtFork::Inherited(lock) => lock.release_in_child(),
        AtFork::Emptied(lock) => lock.leak_in_child(),
        AtFork::InChild(function) => function(),
    });
    FORK.release_in_child();
    word().store(READY, Ordering::Release);
}
