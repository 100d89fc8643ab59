//! Provides the two entry points of the resolver: [`ffi_guard`] for C callers and [`entry`] for Rust callers. Both
//! subscribe the log to the resolver's events and flush it afterwards. [`ffi_guard`] also catches panics, and converts
//! an error to a status and the thread's last error.

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

/// Forwards an event to the log and the layers.
fn record(event: &Event<'_>) {
    loader_events::record(event);
    pass_to_layers(event);
}

/// Runs a request from a Rust caller.
pub(crate) fn entry<T>(work: impl FnOnce() -> T) -> T {
    keep_loaded();
    listen_if_verbose();
    events::subscribe(record);
    let result = work();
    callback::flush();
    result
}

/// Resolves a function for a C caller, which always receives an address or a status.
pub(crate) fn ffi_guard(
    resolve: &dyn Fn() -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), cudnnStatus_t> {
    keep_loaded();
    let _guard = ThreadStateGuard::new();
    listen_if_verbose();
    events::subscribe(record);
    // Outside `catch_unwind`, because this may run a user callback that throws.
    query_loaded_cuda_major();
    // This code should never panic. If a bug makes it panic, it must not unwind into C.
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
    // From here on, a user callback may run and throw. It may also call cuDNN and thereby replace, read or clear the
    // last error. To survive this, the error is set both before and after the callback.
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
