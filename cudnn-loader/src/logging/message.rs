//! Splits a log message into lines, in the form that cuDNN passes to a callback.

use std::ffi::{CStr, c_char};

/// # Safety
/// `message` is null, or NUL-terminated lines followed by a final NUL.
pub(super) unsafe fn lines(message: *const c_char) -> Vec<String> {
    let mut found = Vec::new();
    // SAFETY: the caller's obligation, passed on.
    unsafe { each_line(message, |line| found.push(line.to_owned())) };
    found
}

/// # Safety
/// As for [`lines`].
pub(super) unsafe fn each_line(message: *const c_char, mut read: impl FnMut(&str)) {
    let mut next = message;
    while !next.is_null() {
        // SAFETY: a line, or the NUL after the last line.
        let line = unsafe { CStr::from_ptr(next) };
        if line.is_empty() {
            break;
        }
        read(&line.to_string_lossy());
        // SAFETY: another line or the final NUL follows the line's NUL.
        next = unsafe { next.add(line.count_bytes() + 1) };
    }
}
