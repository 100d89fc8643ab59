//! Prevents forks during short operations under a lock. A forked child would inherit a lock that another thread holds
//! and never see it released. This applies to ld.so's lock, which glibc does not reset in a child, and to the log
//! file's lock.
//!
//! A fork waits for these operations, and they wait for a fork, in both cases at most for [`LIMIT`]. The operations
//! must not wait for other threads or call the program's code.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_os::at_load;
use cudnn_os::fork::call_at_forks;

use super::sections::Sections;

const LIMIT: Duration = Duration::from_secs(1);

static OPERATIONS: Sections = Sections::new(&IS_INSIDE, LIMIT);

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Prevents forks while it exists.
pub(crate) struct ForkGuard(());

impl ForkGuard {
    pub(crate) fn new() -> Self {
        handle_forks();
        OPERATIONS.enter(|| false);
        ForkGuard(())
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        OPERATIONS.leave();
    }
}

/// Registers the fork handlers. Handlers that wait longer must be registered later, because glibc calls prepare
/// handlers in reverse order.
pub(crate) fn handle_forks() {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    // Prevents the linker from dropping the entry as unreferenced.
    std::hint::black_box(&REGISTER);
    if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
        OPERATIONS.start();
        call_at_forks(before_fork, after_fork, in_child);
    }
}

// A fork that starts before the handlers are registered does not wait.
at_load!(REGISTER: register);

extern "C" fn register() {
    handle_forks();
}

unsafe extern "C" fn before_fork() {
    OPERATIONS.close();
    OPERATIONS.wait_until_empty();
}

unsafe extern "C" fn after_fork() {
    OPERATIONS.open();
}

/// Returns whether this process is a forked child that has not executed another program. Such a process may have
/// inherited a lock of cuDNN's from a thread that exists only in the parent.
pub(crate) fn is_in_child() -> bool {
    IS_IN_CHILD.load(Ordering::Relaxed)
}

static IS_IN_CHILD: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn in_child() {
    IS_IN_CHILD.store(true, Ordering::Relaxed);
    OPERATIONS.reset_in_child();
}
