//! Starts threads for internal work. They block all signals, which are intended for the program's threads.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};

use cudnn_os::threads;
pub(crate) use cudnn_os::threads::{Scope, ScopedThread, Work, is_internal as is_internal_thread, scope};

use crate::sync::primitives::lock;

/// The name of these threads.
const NAME: &str = "cudnn-preload";

thread_local! {
    /// Set while this thread does internal work, which may call the program through a log callback or a library's
    /// constructor.
    pub(crate) static DOES_INTERNAL_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Starts a detached thread. A handle would be useless in a forked child, where the thread does not exist.
///
/// # Errors
/// Fails if the system cannot create a thread.
pub(crate) fn spawn_detached(work: Work<'static>) -> io::Result<()> {
    threads::start(NAME, work)
}

/// Starts a thread in a scope.
///
/// # Errors
/// Returns the work if the system cannot create a thread.
pub(crate) fn spawn_scoped<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> Result<ScopedThread<'scope, ()>, Work<'scope>> {
    // The work is stored separately, because a closure is dropped if the thread cannot be started.
    let shared = Arc::new(Mutex::new(Some(work)));
    let take = |shared: &Mutex<Option<Work<'scope>>>| lock(shared).and_then(|mut work| work.take());
    let in_thread = shared.clone();
    // Boxed, because both functions then share an instance of std's code.
    let work: Work<'scope> = Box::new(move || {
        DOES_INTERNAL_WORK.set(true);
        if let Some(work) = take(&in_thread) {
            work();
        }
    });
    threads::start_scoped(NAME, scope, work).map_err(|_| take(&shared).unwrap_or_else(|| Box::new(|| {})))
}
