//! Events, which the resolver emits while it searches, loads and fails. The resolver does not know who listens:
//! the log and the layers (see `guard`).

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use cudnn_probe::{Installation, RejectedCandidate};
use cudnn_sys::types::cudnnStatus_t;

use crate::error::LoadError;
use crate::sub_library::SubLibrary;
use crate::thread::reentrancy::ReentrancyGuard;

/// One step of resolving a function.
pub(crate) enum Event<'a> {
    /// The search ended: with an installation or with an error.
    SearchFinished { outcome: Result<&'a Installation, &'a LoadError>, rejected: &'a [RejectedCandidate] },
    /// ld.so is about to load a sub-library.
    Loading { library: SubLibrary, path: &'a Path },
    /// cuDNN's graph library is loaded, and no other thread can call it yet. The address is that of its
    /// `cudnnSetCallback`.
    GraphOpened { set_callback: *mut c_void },
    /// A sub-library is loaded and verified.
    Loaded { library: SubLibrary, path: &'a Path, duration: Duration },
    /// A sub-library could not be loaded.
    LoadFailed { error: &'a LoadError },
    /// A call of this function failed, because the function could not be resolved.
    CallFailed { function: &'a str, status: cudnnStatus_t, report: &'a str },
    /// A function was resolved in this time, for its first call.
    FirstCall { function: &'a CStr, duration: Duration },
    /// A layer, or the loader about it, has something to log.
    LayerMessage { layer: &'a str, severity: LayerSeverity, text: &'a str },
}

/// How much a layer's message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerSeverity {
    Error,
    Warning,
    Info,
}

impl Event<'_> {
    fn is_failure(&self) -> bool {
        matches!(self, Event::SearchFinished { outcome: Err(_), .. } | Event::LoadFailed { .. })
    }
}

thread_local! {
    /// This thread asks whether a function can be called.
    static IS_QUESTION: Cell<bool> = const { Cell::new(false) };
}

/// Runs this without reporting that nothing was found or loaded: for a caller who asks whether it is there, the answer
/// "no" is no error. A call that fails because of it is reported.
pub(crate) fn as_question<T>(work: impl FnOnce() -> T) -> T {
    let _question = ReentrancyGuard::enter(&IS_QUESTION);
    work()
}

type Subscriber = fn(&Event<'_>);

/// Null, or a `Subscriber`. An atomic instead of a lock, because events are also emitted under ld.so's lock.
static SUBSCRIBER: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Sends all events to this function from now on.
pub(crate) fn subscribe(subscriber: Subscriber) {
    SUBSCRIBER.store(subscriber as *mut (), Ordering::Release);
}

/// Reports an event.
pub(crate) fn emit(event: &Event<'_>) {
    if event.is_failure() && IS_QUESTION.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let subscriber = SUBSCRIBER.load(Ordering::Acquire);
    if !subscriber.is_null() {
        // SAFETY: `subscribe` stored a function of this type.
        let subscriber = unsafe { std::mem::transmute::<*mut (), Subscriber>(subscriber) };
        subscriber(event);
    }
}
