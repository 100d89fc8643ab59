//! Starts and identifies threads.

use std::io;
use std::thread::Builder;

pub use std::thread::{Scope, ScopedJoinHandle as ScopedThread, scope};

use super::signals::with_signals_blocked;

/// The work of a thread, which is boxed so that the code that starts threads is compiled only once.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Starts a detached thread with signals blocked.
///
/// # Errors
/// Returns an error if creating a thread fails.
pub fn start(name: &str, work: Work<'static>) -> io::Result<()> {
    with_signals_blocked(|| builder(name).spawn(work)).map(drop)
}

/// Starts a scoped thread with signals blocked.
///
/// # Errors
/// Returns an error if creating a thread fails.
pub fn start_scoped<'scope, 'env>(
    name: &str,
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> io::Result<ScopedThread<'scope, ()>> {
    with_signals_blocked(|| builder(name).spawn_scoped(scope, work))
}

fn builder(name: &str) -> Builder {
    // An explicit size avoids reading RUST_MIN_STACK, because that is unsafe while the program calls `setenv`.
    Builder::new().name(name.to_owned()).stack_size(2 << 20)
}

/// Returns whether this crate has started the current thread. This matters only on Windows, which runs code of the
/// program in a new thread before the actual work starts.
pub fn is_internal() -> bool {
    false
}

/// Returns the ID of this thread, which is unique in the system.
pub fn id() -> u32 {
    // SAFETY: the call involves no pointers and always succeeds.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).unwrap_or_default()
}

/// Returns a number other than 0 that no other running thread of this process has. It also works in a signal handler,
/// because it needs no system call and no memory.
#[inline]
pub fn mark() -> usize {
    // SAFETY: the function always returns the address of this thread's `errno`.
    unsafe { libc::__errno_location() }.addr()
}
