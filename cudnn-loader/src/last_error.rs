//! Each thread's last load error, and the texts that `cudnnGetErrorString` returns for it. Works with nothing
//! installed.
//!
//! cuDNN also keeps a last error for each thread, and clears it when it is fetched. A warm call goes straight to cuDNN,
//! so this crate cannot see which of the two errors is newer. Therefore this crate clears cuDNN's error when it records
//! an error: any error that cuDNN reports later is newer.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::sync::Mutex;

use cudnn_sys::types::cudnnStatus_t;

use crate::sync::primitives::lock;

thread_local! {
    static LAST_ERROR: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// A failure that this crate has returned to the thread.
struct LastError {
    status: cudnnStatus_t,
    report: String,
    /// `cudnnGetLastErrorString` has returned it, and does not return it again.
    reported: bool,
    /// cuDNN's error, if there is one, is older and has not been cleared yet.
    newer_than_cudnn: bool,
}

/// This thread's last load error as a full report, even if `cudnnGetLastErrorString` has returned it already.
#[must_use]
pub fn last_load_error() -> Option<String> {
    LAST_ERROR.try_with(|error| Some(error.try_borrow().ok()?.as_ref()?.report.clone())).ok()?
}

/// Makes this the thread's last error. The caller then clears cuDNN's.
pub(crate) fn set(status: cudnnStatus_t, report: String) {
    let error = LastError { status, report, reported: false, newer_than_cudnn: true };
    // An ending thread cannot keep the error: its caller gets only the status.
    let _ = LAST_ERROR.try_with(|last| last.replace(Some(error)));
}

/// Whether the thread's error is newer than the one just requested from cuDNN. From now on it is not.
pub(crate) fn take_newer_flag() -> bool {
    let take = |error: &RefCell<Option<LastError>>| {
        Some(std::mem::take(&mut error.try_borrow_mut().ok()?.as_mut()?.newer_than_cudnn))
    };
    LAST_ERROR.try_with(take).ok().flatten().unwrap_or(false)
}

/// The thread's report, unless `cudnnGetLastErrorString` has returned it already. Marks it as returned.
pub(crate) fn take_unreported() -> Option<String> {
    let take = |error: &RefCell<Option<LastError>>| {
        let mut error = error.try_borrow_mut().ok()?;
        let error = error.as_mut().filter(|error| !error.reported)?;
        error.reported = true;
        Some(error.report.clone())
    };
    LAST_ERROR.try_with(take).ok().flatten()
}

/// The first line of the thread's report, if the report has this status.
pub(crate) fn report_line(status: cudnnStatus_t) -> Option<String> {
    let line = |error: &RefCell<Option<LastError>>| {
        let error = error.try_borrow().ok()?;
        error.as_ref().filter(|error| error.status == status)?.report.lines().next().map(str::to_owned)
    };
    LAST_ERROR.try_with(line).ok()?
}

/// Texts that `cudnnGetErrorString` has returned. Never freed: callers keep the pointers, as with cuDNN's.
static INTERNED: Mutex<Vec<CString>> = Mutex::new(Vec::new());
const MAX_INTERNED: usize = 256;

/// The text as a static string. `None` if there are too many different ones already.
pub(crate) fn intern(text: String) -> Option<*const c_char> {
    let text = CString::new(text).ok()?;
    // Waits at most a second: in a forked child, the thread that has the lock may not exist.
    let mut texts = lock(&INTERNED)?;
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return Some(known.as_ptr());
    }
    if texts.len() == MAX_INTERNED {
        return None;
    }
    texts.push(text);
    // The bytes stay where they are when the list grows, and no text is ever removed.
    texts.last().map(|text| text.as_ptr())
}
