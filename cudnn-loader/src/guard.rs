//! Provides the two entry points of the resolver: [`ffi_guard`] for C callers and [`rust_guard`] for Rust callers. Both flush
//! the log afterwards. [`ffi_guard`] also catches panics, and converts an error to a status and the thread's last error.

use std::panic::AssertUnwindSafe;

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::load::keep_loaded;
use cudnn_sys::types::cudnnStatus_t;

use crate::dl::objects::LoadedObjects;
use crate::error::{FailureStatus, LoadError};
use crate::error_strings::{clear_cudnn_error, listen_if_verbose};
use crate::events::{LoaderEvent, emit};
use crate::last_error;
use crate::logging::callback;
use crate::resolve::in_memory::query_loaded_cuda_major;

/// Runs a request from a Rust caller.
pub(crate) fn rust_guard<T>(work: impl FnOnce() -> T) -> T {
    keep_loaded();
    listen_if_verbose();
    let result = work();
    callback::flush();
    result
}

/// Resolves a function for a C caller, which always receives an address or a status.
pub(crate) fn ffi_guard(
    resolve: &dyn Fn(&mut LoadedObjects) -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), FailureStatus> {
    keep_loaded();
    let _guard = ThreadStateGuard::new();
    listen_if_verbose();
    // Outside `catch_unwind`, because this may run a user callback that throws.
    let mut objects = LoadedObjects::snapshot();
    query_loaded_cuda_major(&objects);
    // This code should never panic. If a bug makes it panic, it must not unwind into C.
    let resolved = std::panic::catch_unwind(AssertUnwindSafe(|| {
        resolve(&mut objects).map_err(|error| {
            let (status, report) = (error.failure_status(), error.report());
            emit(&LoaderEvent::CallFailed { function: &name(), status: status.into(), report: &report });
            (status, report)
        })
    }))
    .unwrap_or_else(|_| {
        let report = format!("{} cannot be called: internal error in cudnn-loader; please report this bug", name());
        Err((FailureStatus::InternalError, report))
    });
    match resolved {
        Ok(address) => {
            callback::flush();
            Ok(address)
        }
        Err((status, report)) => {
            // The program's callback may throw. It may also call cuDNN and thereby replace, read or clear the last error.
            let last_error = SetLastError { status: status.into(), report };
            callback::flush();
            drop(last_error);
            clear_cudnn_error();
            Err(status)
        }
    }
}

/// Sets the thread's last error when it is dropped, also by an exception.
struct SetLastError {
    status: cudnnStatus_t,
    report: String,
}

impl Drop for SetLastError {
    fn drop(&mut self) {
        last_error::set(self.status, std::mem::take(&mut self.report));
    }
}
