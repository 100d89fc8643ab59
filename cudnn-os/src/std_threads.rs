//! Threads, started by std.

use std::io;
use std::thread::Builder;

pub use std::thread::{Scope, ScopedJoinHandle as ScopedThread, scope};

use crate::os::signals::with_signals_blocked;

/// Work for a thread. Boxed, so that the code that starts a thread exists once.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Starts a thread that nobody joins. It takes no signals.
///
/// # Errors
/// The system has no thread left.
pub fn start(name: &str, work: Work<'static>) -> io::Result<()> {
    with_signals_blocked(|| builder(name).spawn(work)).map(drop)
}

/// Starts a thread in a scope. It takes no signals.
///
/// # Errors
/// The system has no thread left.
pub fn start_scoped<'scope, 'env>(
    name: &str,
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> io::Result<ScopedThread<'scope, ()>> {
    with_signals_blocked(|| builder(name).spawn_scoped(scope, work))
}

fn builder(name: &str) -> Builder {
    // With a size, std does not read RUST_MIN_STACK: reading the environment is not safe while the program calls `setenv`.
    Builder::new().name(name.to_owned()).stack_size(2 << 20)
}

/// Whether this crate has started this thread, which may not have come to its work yet. Only Windows calls the program in
/// such a thread.
pub fn is_internal() -> bool {
    false
}
