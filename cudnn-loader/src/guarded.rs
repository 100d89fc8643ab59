//! The way from a failure to C: a status, a story and an entry in the log, and never a panic. Knows nothing of how anything is
//! found, but that a cuDNN which somebody else has loaded is asked first.

use std::panic::AssertUnwindSafe;

use crate::uncancelled::CancelDisabled;
use crate::{LoadError, cudnnStatus_t, last_error, log, pinned};

/// Resolves for a caller that is C: whatever happens, a status and a story are all that comes of it.
pub(crate) fn ffi_guard(
    resolve: &dyn Fn() -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), cudnnStatus_t> {
    let _uncancelled = CancelDisabled::new();
    // Before anything is caught, for the same reason as below.
    pinned::query_loaded_cuda_major();
    // Nothing in here panics by design; a defect must still not unwind into C.
    let found = std::panic::catch_unwind(AssertUnwindSafe(|| {
        resolve().map_err(|error| {
            let (status, story) = (error.status(), error.to_string());
            log::failed(&name(), status, &story);
            (status, story)
        })
    }))
    .unwrap_or_else(|_| {
        let story = format!("{} cannot be called: a defect in cudnn-loader, please report it", name());
        Err((cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR, story))
    });
    // Out here, since an exception that a callback throws cannot be caught. The story first, so that it stays when one is
    // thrown, and once more, since the callback's own calls may have had another, or read this one.
    if let Err((status, story)) = &found {
        last_error::set(*status, story.clone());
    }
    log::flush();
    found.map_err(|(status, story)| {
        last_error::set(status, story);
        last_error::clear_cudnn_error();
        status
    })
}
