//! Short work under a lock that a forked child would inherit for ever if another thread had it: ld.so's, which glibc does
//! not reset in a child, and that of the log's file. A fork waits for such work, and such work for a fork.
//!
//! The work waits for nobody and calls no code of the program. Nobody waits for more than [`LIMIT`].

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_os::at_load;
use cudnn_os::fork::call_at_forks;

use crate::sync::gate::Gate;
use crate::sync::primitives::Backoff;

const LIMIT: Duration = Duration::from_secs(1);

static GATE: Gate = Gate::new();

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// No thread forks as long as this lives.
pub(crate) struct NotBesideFork(());

impl NotBesideFork {
    pub(crate) fn new() -> Self {
        handle_forks();
        let mut backoff = Backoff::with_limit(LIMIT);
        while !GATE.try_enter() {
            if !backoff.wait() {
                GATE.enter_anyway();
                break;
            }
        }
        IS_INSIDE.set(true);
        NotBesideFork(())
    }
}

impl Drop for NotBesideFork {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
        GATE.leave();
    }
}

/// Makes forks wait from now on. glibc calls what is registered last first: who waits longer registers later.
pub(crate) fn handle_forks() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Keeps the entry where the linker drops what nothing refers to.
    std::hint::black_box(&REGISTER);
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        call_at_forks(before_fork, after_fork, in_child);
    }
}

// A fork that begins before the handlers are registered does not wait.
at_load!(REGISTER: register);

extern "C" fn register() {
    handle_forks();
}

unsafe extern "C" fn before_fork() {
    GATE.close();
    let mut backoff = Backoff::with_limit(LIMIT);
    while GATE.inside() > u64::from(IS_INSIDE.get()) && backoff.wait() {}
}

unsafe extern "C" fn after_fork() {
    GATE.open();
}

/// Is this process a child of a fork that did not start another program? A lock of cuDNN's may be taken there for ever, by
/// a thread that exists in the parent alone.
pub(crate) fn is_in_child() -> bool {
    IS_IN_CHILD.load(Ordering::Relaxed)
}

static IS_IN_CHILD: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn in_child() {
    IS_IN_CHILD.store(true, Ordering::Relaxed);
    GATE.reset(u64::from(IS_INSIDE.get()));
}
