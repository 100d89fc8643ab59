//! Starts threads for internal work. They take no signals: those are for the program's threads.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};

use cudnn_os::threads;
pub(crate) use cudnn_os::threads::{Scope, ScopedThread, Work, is_internal as is_internal_thread, scope};

use crate::sync::primitives::lock;

/// The name of each of the threads.
const NAME: &str = "cudnn-preload";

thread_local! {
    /// This thread does internal work, which may call the program: a log callback, a library's constructor.
    pub(crate) static DOES_INTERNAL_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread that nobody joins. A handle would be useless in a child of `fork`, where the thread does not exist.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn spawn_detached(work: Work<'static>) -> io::Result<()> {
    threads::start(NAME, work)
}

/// Starts a thread in a scope.
///
/// # Errors
/// The system has no thread left. Returns the work.
pub(crate) fn spawn_scoped<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> Result<ScopedThread<'scope, ()>, Work<'scope>> {
    // The closure of a thread that cannot be started is dropped, so the work is kept aside.
    let shared = Arc::new(Mutex::new(Some(work)));
    let take = |shared: &Mutex<Option<Work<'scope>>>| lock(shared).and_then(|mut work| work.take());
    let in_thread = shared.clone();
    // Boxed too, so that both functions use the same instance of std's code.
    let work: Work<'scope> = Box::new(move || {
        DOES_INTERNAL_WORK.set(true);
        if let Some(work) = take(&in_thread) {
            work();
        }
    });
    threads::start_scoped(NAME, scope, work).map_err(|_| take(&shared).unwrap_or_else(|| Box::new(|| {})))
}
