//! The two entries to the resolver: [`ffi_guard`] for C callers, [`entry`] for Rust callers. Both connect the log to
//! the resolver's events, and flush it afterwards. [`ffi_guard`] also contains panics, and turns an error into a status
//! and a last error.

use std::panic::AssertUnwindSafe;

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::load::keep_loaded;
use cudnn_sys::types::cudnnStatus_t;

use crate::builtin::error_strings::{clear_cudnn_error, listen_if_verbose};
use crate::error::LoadError;
use crate::events::{self, Event, emit};
use crate::last_error;
use crate::layers::pass_to_layers;
use crate::logging::{callback, loader_events};
use crate::resolve::in_memory::query_loaded_cuda_major;

/// Passes an event to all who listen.
fn record(event: &Event<'_>) {
    loader_events::record(event);
    pass_to_layers(event);
}

/// Runs a Rust caller's request to the resolver.
pub(crate) fn entry<T>(work: impl FnOnce() -> T) -> T {
    keep_loaded();
    listen_if_verbose();
    events::subscribe(record);
    let result = work();
    callback::flush();
    result
}

/// Resolves for a C caller, who gets an address or a status in every case.
pub(crate) fn ffi_guard(
    resolve: &dyn Fn() -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), cudnnStatus_t> {
    keep_loaded();
    let _guard = ThreadStateGuard::new();
    listen_if_verbose();
    events::subscribe(record);
    // Outside `catch_unwind`: this may run a user callback that throws.
    query_loaded_cuda_major();
    // Nothing in here should panic. If a bug does, it must not unwind into C.
    let resolved = std::panic::catch_unwind(AssertUnwindSafe(|| {
        resolve().map_err(|error| {
            let (status, report) = (error.status(), error.report());
            emit(&Event::CallFailed { function: &name(), status, report: &report });
            (status, report)
        })
    }))
    .unwrap_or_else(|_| {
        let report = format!("{} cannot be called: internal error in cudnn-loader; please report this bug", name());
        Err((cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR, report))
    });
    // From here on a user callback may run, and throw. So the error is set before it, and again after it: calls in the
    // callback may replace the error, or read and clear it.
    if let Err((status, report)) = &resolved {
        last_error::set(*status, report.clone());
    }
    callback::flush();
    resolved.map_err(|(status, report)| {
        last_error::set(status, report);
        clear_cudnn_error();
        status
    })
}
