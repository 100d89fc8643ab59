//! The lines of a log message, as cuDNN passes them to a callback.

use std::ffi::{CStr, c_char};

/// # Safety
/// `message` is null, or lines with a NUL behind each and one more at the end.
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
        // SAFETY: a line, or the NUL behind the last.
        let line = unsafe { CStr::from_ptr(next) };
        if line.is_empty() {
            break;
        }
        read(&line.to_string_lossy());
        // SAFETY: behind the line's NUL follows another line, or one more NUL.
        next = unsafe { next.add(line.count_bytes() + 1) };
    }
}
