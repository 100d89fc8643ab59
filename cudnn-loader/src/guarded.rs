//! The way from a failure to C: a status, a story and an entry in the log, and never a panic. Knows nothing of how anything is
//! found.

use std::panic::AssertUnwindSafe;

use crate::uncancelled::Uncancelled;
use crate::{LoadError, cudnnStatus_t, last_error, log};

/// Resolves for a caller that is C: whatever happens, a status and a story are all that comes of it.
pub(crate) fn guarded(
    resolve: &dyn Fn() -> Result<*mut (), LoadError>,
    name: &dyn Fn() -> String,
) -> Result<*mut (), cudnnStatus_t> {
    let _uncancelled = Uncancelled::new();
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
    found.map_err(|(status, story)| {
        // Out here, since it asks cuDNN, which logs that: a callback may throw, and such an exception cannot be caught.
        last_error::record(status, story);
        status
    })
}
