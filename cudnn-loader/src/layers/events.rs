//! Forwards the resolver's events to the layers.

use std::cell::Cell;
use std::ffi::CString;
use std::path::Path;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_layer_api::abi;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_probe::Library;

use super::text::c_path;
use super::{environment, link};
use crate::events::LoaderEvent;
use crate::resolve::libraries;
use crate::thread::reentrancy::ReentrancyGuard;

const EMPTY_EVENT: abi::Event = abi::Event {
    size: size_of::<abi::Event>(),
    kind: 0,
    status: 0,
    function: null(),
    library: null(),
    path: null(),
    text: null(),
    duration_ns: 0,
    age_ns: 0,
};

/// Whether the layers have been notified that the library is loaded.
static IS_KNOWN: [AtomicBool; Library::ALL.len()] = [const { AtomicBool::new(false) }; Library::ALL.len()];

/// Forwards the events that are relevant to layers, if any layer is active.
pub(crate) fn pass_to_layers(event: &LoaderEvent<'_>) {
    environment::save_if_needed(event);
    if link::links().next().is_none() {
        return;
    }
    let _guard = ThreadStateGuard::new();
    match *event {
        LoaderEvent::Loaded { library, path, duration } => pass_loaded(library, path, duration, Duration::ZERO),
        LoaderEvent::LoadFailed { error } => {
            let report = text(&error.report());
            let library = text(error.library().file_name());
            let status = status_number(error.status().0);
            pass(&abi::Event {
                kind: abi::LIBRARY_FAILED,
                status,
                library: library.as_ptr(),
                text: report.as_ptr(),
                ..EMPTY_EVENT
            });
        }
        LoaderEvent::CallFailed { function, status, report } => {
            let (function, report) = (text(function), text(report));
            let status = status_number(status.0);
            pass(&abi::Event {
                kind: abi::CALL_FAILED,
                status,
                function: function.as_ptr(),
                text: report.as_ptr(),
                ..EMPTY_EVENT
            });
        }
        LoaderEvent::FirstCall { function, duration } => {
            let duration_ns = nanoseconds(duration);
            pass(&abi::Event { kind: abi::FIRST_CALL, function: function.as_ptr(), duration_ns, ..EMPTY_EVENT });
        }
        LoaderEvent::SearchFinished { .. }
        | LoaderEvent::Loading { .. }
        | LoaderEvent::GraphOpened { .. }
        | LoaderEvent::LayerMessage { .. } => {}
    }
}

/// Notifies the layers about libraries that were loaded before the layers started.
pub(super) fn pass_earlier() {
    if link::links().next().is_some() {
        for loaded in Library::ALL.iter().filter_map(|library| libraries::loaded(*library)) {
            pass_loaded(loaded.library, &loaded.path, loaded.duration, loaded.age());
        }
    }
}

fn pass_loaded(library: Library, path: &Path, duration: Duration, age: Duration) {
    if IS_KNOWN.get(library as usize).is_none_or(|is_known| is_known.swap(true, Ordering::Relaxed)) {
        return;
    }
    let (name, path) = (text(library.file_name()), c_path(path));
    pass(&abi::Event {
        kind: abi::LIBRARY_LOADED,
        library: name.as_ptr(),
        path: path.as_ptr(),
        duration_ns: nanoseconds(duration),
        age_ns: nanoseconds(age),
        ..EMPTY_EVENT
    });
}

thread_local! {
    static IS_PASSING: Cell<bool> = const { Cell::new(false) };
}

/// A layer may call cuDNN while it handles an event. Events that such calls cause are dropped to avoid endless
/// recursion.
fn pass(event: &abi::Event) {
    let Some(_passing) = ReentrancyGuard::enter(&IS_PASSING) else { return };
    link::links().for_each(|link| link.pass(event));
}

fn text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn status_number(status: u32) -> i32 {
    i32::try_from(status).unwrap_or(i32::MAX)
}
