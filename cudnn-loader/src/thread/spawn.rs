//! Starts threads for internal work. They take no signals: those are for the program's threads.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::platform::signals::with_signals_blocked;
use crate::sync::primitives::lock;

/// Work for a thread. Boxed, so that the code that starts a thread exists once.
pub(crate) type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

thread_local! {
    /// This thread does internal work, which may call the program: a log callback, a library's constructor.
    pub(crate) static DOES_INTERNAL_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread that nobody joins. A handle would be useless in a child of `fork`, where the thread does not exist.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn spawn_detached(work: Work<'static>) -> io::Result<()> {
    with_signals_blocked(|| builder().spawn(work)).map(drop)
}

fn builder() -> Builder {
    Builder::new().name("cudnn-preload".into())
}

/// Starts a thread in a scope.
///
/// # Errors
/// The system has no thread left. Returns the work.
pub(crate) fn spawn_scoped<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    work: Work<'scope>,
) -> Result<ScopedJoinHandle<'scope, ()>, Work<'scope>> {
    // std drops the closure of a thread that it cannot start, so the work is kept aside.
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
    let started = with_signals_blocked(|| builder().spawn_scoped(scope, work));
    started.map_err(|_| take(&shared).unwrap_or_else(|| Box::new(|| {})))
}
