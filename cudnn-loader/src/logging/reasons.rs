//! Records the last cuDNN warning or error per thread, for `cudnnGetErrorString`. cuDNN reports unsupported requests
//! only as warnings, without a last-error text.
//!
//! For releases up to 9.10.2, the loader installs no log callback, because a callback changes cuDNN's last-error text.

use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::catch_unwind;

use cudnn_probe::Version;

use super::callback;
use super::entry::reason;
use super::message::each_line;
use super::sink::writes_to_file;
use crate::resolve::installation::installation;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    /// The name of the status that the call returned.
    pub(crate) status: String,
    /// The innermost reason.
    pub(crate) reason: String,
}

thread_local! {
    static LAST: RefCell<Option<FailedCall>> = const { RefCell::new(None) };
}

/// Records cuDNN's warnings and errors from now on. Must run before the first call. Disabled if the environment enables
/// a log, because a callback would suppress that log.
pub(crate) fn start() {
    if !writes_to_file() {
        callback::observe(observe);
    }
}

/// The first release with a last-error text that is independent of the callback.
const FIRST_RELEASE: Version = Version::new(9, 11, 0);

/// Removes the loader's observer for older releases, after the graph library is opened and before it gets a callback.
pub(super) fn graph_opened() {
    if installation().is_some_and(|installation| installation.version < FIRST_RELEASE) {
        callback::refuse_observers();
    }
}

/// Returns the last failure that cuDNN reported to this thread, even if the call finally succeeded.
pub(crate) fn last() -> Option<FailedCall> {
    LAST.try_with(|last| last.try_borrow().ok()?.clone()).ok()?
}

/// Discards the reason after the loader itself has reported a failure.
pub(crate) fn forget() {
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = None));
}

/// # Safety
/// The message consists of NUL-terminated lines followed by a final NUL.
unsafe fn observe(message: *const c_char) {
    // SAFETY: the caller's obligation, passed on.
    let result = catch_unwind(|| unsafe { failure(message) });
    if let Ok(Some(failure)) = result {
        let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = Some(failure)));
    }
}

/// Parses a failure. The traceback's first line contains the innermost reason, and the last line the status of the
/// call.
///
/// # Safety
/// As for [`observe`].
unsafe fn failure(message: *const c_char) -> Option<FailedCall> {
    let mut found: Option<FailedCall> = None;
    let read = |line: &str| {
        let Some((_, status, text)) = reason(line.trim_start()) else { return };
        if status == "CUDNN_STATUS_SUCCESS" {
            return;
        }
        match &mut found {
            Some(failure) => status.clone_into(&mut failure.status),
            None => found = Some(FailedCall { status: status.into(), reason: text.into() }),
        }
    };
    // SAFETY: the caller's obligation, passed on.
    unsafe { each_line(message, read) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_reason_and_the_status_of_the_call_are_found() {
        let message = c"CuDNN (v91900 56) function cudnnBackendFinalize() called:";
        let lines = [
            message.to_bytes(),
            b"    Info: Traceback contains 3 message(s)",
            b"        Warning: CUDNN_STATUS_SUCCESS; Reason: a remark",
            b"        Warning: CUDNN_STATUS_NOT_SUPPORTED_SHAPE; Reason: nBlocks.y > 65535",
            b"        Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: ptrDesc->finalize()",
            b"Time: 2026",
        ];
        let mut text: Vec<u8> = lines.iter().flat_map(|line| [*line, b"\0"].concat()).collect();
        text.push(0);
        // SAFETY: NUL-terminated lines followed by a final NUL.
        let found = unsafe { failure(text.as_ptr().cast()) }.unwrap();
        assert_eq!(found.status, "CUDNN_STATUS_NOT_SUPPORTED");
        assert_eq!(found.reason, "nBlocks.y > 65535");
        // SAFETY: an empty message.
        assert_eq!(unsafe { failure(c"".as_ptr()) }, None);
    }
}
