//! Defines the events that the resolver emits while it searches and loads. The log and the layers subscribe in `dispatch`,
//! which makes the resolver independent of both.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::time::Duration;

use cudnn_probe::{Installation, Library, RejectedCandidate};
use cudnn_sys::types::cudnnStatus_t;
use once_cell::race::OnceBox;

use crate::error::LoadError;
use crate::thread::reentrancy::ReentrancyGuard;

/// A step in resolving a function.
pub(crate) enum LoaderEvent<'a> {
    /// The search finished with an installation or an error.
    SearchFinished { outcome: Result<&'a Installation, &'a LoadError>, rejected: &'a [RejectedCandidate] },
    /// ld.so is about to load a sub-library.
    Loading { library: Library, path: &'a Path },
    /// cuDNN's graph library is loaded and still invisible to other threads. `set_callback` is the address of
    /// `cudnnSetCallback` in it.
    GraphOpened { set_callback: *mut c_void },
    /// A sub-library is loaded and verified.
    Loaded { library: Library, path: &'a Path, duration: Duration },
    /// A sub-library could not be loaded.
    LoadFailed { error: &'a LoadError },
    /// A call failed because the function could not be resolved.
    CallFailed { function: &'a str, status: cudnnStatus_t, report: &'a str },
    /// A function was resolved for a first call, which took this long.
    FirstCall { function: &'a CStr, duration: Duration },
    /// A layer logged a message, or the loader logged one about a layer. The severity is one of `cudnn_layer.h`.
    LayerMessage { layer: &'a str, severity: c_int, text: &'a str },
}

impl LoaderEvent<'_> {
    fn is_failure(&self) -> bool {
        matches!(self, LoaderEvent::SearchFinished { outcome: Err(_), .. } | LoaderEvent::LoadFailed { .. })
    }
}

thread_local! {
    /// Set while this thread only checks whether a function is available.
    static SUPPRESSES_FAILURES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without reporting search and load failures, because "not available" is a valid answer to the caller's
/// question. A call that fails for the same reason is still reported.
pub(crate) fn without_failure_events<T>(work: impl FnOnce() -> T) -> T {
    let _suppressed = ReentrancyGuard::enter(&SUPPRESSES_FAILURES);
    work()
}

type Subscriber = fn(&LoaderEvent<'_>);

static SUBSCRIBER: OnceBox<Subscriber> = OnceBox::new();

/// Sends all events to this function, unless there is a subscriber already.
pub(crate) fn subscribe(subscriber: Subscriber) {
    SUBSCRIBER.get_or_init(|| Box::new(subscriber));
}

/// Sends an event to the subscriber.
pub(crate) fn emit(event: &LoaderEvent<'_>) {
    if event.is_failure() && SUPPRESSES_FAILURES.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    if let Some(subscriber) = SUBSCRIBER.get() {
        subscriber(event);
    }
}
