//! Threads, started by std.

use std::io;
use std::thread::Builder;

pub(crate) use std::thread::{Scope, ScopedJoinHandle as ScopedThread, scope};

use super::os::signals::with_signals_blocked;

/// Work for a thread. Boxed, so that the code that starts a thread exists once.
pub(crate) type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Starts a thread that nobody joins.
pub(crate) fn start(work: Work<'static>) -> io::Result<()> {
    with_signals_blocked(|| builder().spawn(work)).map(drop)
}

/// Starts a thread in a scope.
pub(crate) fn start_scoped<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> io::Result<ScopedThread<'scope, ()>> {
    with_signals_blocked(|| builder().spawn_scoped(scope, work))
}

fn builder() -> Builder {
    Builder::new().name("cudnn-preload".into())
}

/// Whether the loader has started this thread, which may not have come to its work yet: only Windows calls the program
/// in such a one.
pub(crate) fn is_internal() -> bool {
    false
}
