//! Stores a last load error per thread, with the strings that `cudnnGetErrorString` returns for it.
//!
//! cuDNN also stores a last error per thread and clears it when a program reads it. After the first call of a function,
//! calls go directly to cuDNN, and this crate cannot see which of the two errors is newer. To make this certain, it
//! clears cuDNN's error whenever it records one. Any error that cuDNN reports later is newer.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use cudnn_sys::types::cudnnStatus_t;
use once_cell::race::OnceBox;

thread_local! {
    static LAST_ERROR: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// A failure that this crate returned to the thread.
struct LastError {
    status: cudnnStatus_t,
    report: String,
    /// `cudnnGetLastErrorString` has already returned the report, and will not return it again.
    reported: bool,
    /// Any error in cuDNN is older and still has to be cleared.
    newer_than_cudnn: bool,
}

/// Returns the full report of this thread's last load error, even if `cudnnGetLastErrorString` has already returned it.
#[must_use]
pub fn last_load_error() -> Option<String> {
    LAST_ERROR.try_with(|error| Some(error.try_borrow().ok()?.as_ref()?.report.clone())).ok()?
}

/// Sets the thread's last error. The caller then clears cuDNN's error.
pub(crate) fn set(status: cudnnStatus_t, report: String) {
    let error = LastError { status, report, reported: false, newer_than_cudnn: true };
    // In an exiting thread, storing the error fails, and the caller receives only the status.
    let _ = LAST_ERROR.try_with(|last| last.replace(Some(error)));
}

/// Returns whether this thread's error is newer than the error just read from cuDNN, and resets that flag.
pub(crate) fn take_newer_flag() -> bool {
    let take = |error: &RefCell<Option<LastError>>| {
        Some(std::mem::take(&mut error.try_borrow_mut().ok()?.as_mut()?.newer_than_cudnn))
    };
    LAST_ERROR.try_with(take).ok().flatten().unwrap_or(false)
}

/// Returns the thread's report and marks it as reported, or `None` if `cudnnGetLastErrorString` has already returned
/// it.
pub(crate) fn take_unreported() -> Option<String> {
    let take = |error: &RefCell<Option<LastError>>| {
        let mut error = error.try_borrow_mut().ok()?;
        let error = error.as_mut().filter(|error| !error.reported)?;
        error.reported = true;
        Some(error.report.clone())
    };
    LAST_ERROR.try_with(take).ok().flatten()
}

/// Returns the first line of the thread's report, if the report has this status.
pub(crate) fn report_line(status: cudnnStatus_t) -> Option<String> {
    let line = |error: &RefCell<Option<LastError>>| {
        let error = error.try_borrow().ok()?;
        error.as_ref().filter(|error| error.status == status)?.report.lines().next().map(str::to_owned)
    };
    LAST_ERROR.try_with(line).ok()?
}

/// Strings that `cudnnGetErrorString` has returned. Never freed, because callers retain the pointers, as with cuDNN's.
/// Not behind a lock, because a forked child would wait for a thread of its parent.
static INTERNED: [OnceBox<CString>; 256] = [const { OnceBox::new() }; 256];

/// Returns the text as a static string, or `None` if the table is full.
pub(crate) fn intern(text: String) -> Option<*const c_char> {
    let text = CString::new(text).ok()?;
    let mut interned = INTERNED.iter().map(|slot| slot.get_or_init(|| Box::new(text.clone())));
    interned.find(|interned| **interned == text).map(|interned| interned.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_string_in_all_threads() {
        let texts = || ["a", "b", "a"].map(|text| intern(text.to_owned()).map(|text| text.addr()));
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(texts)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let [a, b, again] = texts();
        assert!(a.is_some() && b.is_some() && a != b && a == again);
        assert!(all.len() == 8 && all.iter().all(|others| *others == [a, b, a]));
    }
}
