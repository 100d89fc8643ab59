//! The two ways into the resolver: [`ffi_guard`] for callers that are C, [`entry`] for callers that are Rust. Both connect the
//! log to the resolver's events and flush it afterwards; the first also turns an error into a status and a last error, and
//! lets no panic out.

use std::panic::AssertUnwindSafe;

use cudnn_sys::types::cudnnStatus_t;

use crate::builtin::error_strings::clear_cudnn_error;
use crate::error::LoadError;
use crate::events::{self, Event, emit};
use crate::last_error;
use crate::logging::{callback, loader_events};
use crate::resolve::in_memory::query_loaded_cuda_major;
use crate::thread::cancel::CancelDisabled;

/// Runs what a Rust caller asks of the resolver.
pub(crate) fn entry<T>(work: impl FnOnce() -> T) -> T {
    events::subscribe(loader_events::record);
    let result = work();
    callback::flush();
    result
}

/// Resolves for a C caller: whatever happens, it gets an address or a status.
pub(crate) fn ffi_guard(
    resolve: &dyn Fn() -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), cudnnStatus_t> {
    let _cancel_disabled = CancelDisabled::new();
    events::subscribe(loader_events::record);
    // Outside `catch_unwind`: this may run a user callback that throws.
    query_loaded_cuda_major();
    // Nothing in here panics by design. A bug must still not unwind into C.
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
    // From here on a user callback may run, and throw. So the error is set first, and once more afterwards: the callback's
    // own calls may have replaced it, or read it.
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
