//! Reads cuDNN's last-error text, which contains the innermost reason of a failure.
//!
//! `cudnnGetErrorString` reads the text before the program does, and reading clears it in cuDNN. This module stores it
//! until the program calls `cudnnGetLastErrorString`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use cudnn_probe::one_line;
use cudnn_sys::signatures::unwinding;

use super::c_buffer::cut;
use crate::logging::callback::is_pending;
use crate::resolve::libraries::{GraphFunctions, graph_functions};
use crate::thread::fork::is_in_child;

/// Longer than any of cuDNN's texts.
const MAX_TEXT: usize = 16 << 10;
/// The length of a reason that still fits into an exception's message.
const MAX_REASON: usize = 1000;

thread_local! {
    /// cuDNN's text that the program has not read yet, without the NUL.
    static UNREAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads cuDNN's text for this thread, stores it, and returns it as one line. `None` without a text. The text stays
/// until [`take`], because cuDNN also retains the text when a later call succeeds.
pub(super) fn read_and_store() -> Option<String> {
    // In a forked child, cuDNN's lock may never be released.
    if is_in_child() {
        return None;
    }
    let mut fetched = vec![0_u8; MAX_TEXT];
    // SAFETY: the passed length matches the buffer.
    unsafe { fetch_cudnn_error(fetched.as_mut_ptr().cast(), fetched.len()) };
    let fetched = CStr::from_bytes_until_nul(&fetched).map(CStr::to_bytes).unwrap_or_default();
    let replace = |held: &RefCell<Vec<u8>>| {
        let mut held = held.try_borrow_mut().ok()?;
        if !fetched.is_empty() {
            *held = fetched.to_vec();
        }
        (!held.is_empty()).then(|| shown(&String::from_utf8_lossy(&held)))
    };
    UNREAD.try_with(replace).ok()?
}

/// Removes and returns the text that [`read_and_store`] stored.
pub(super) fn take() -> Option<Vec<u8>> {
    let take = |held: &RefCell<Vec<u8>>| held.try_borrow_mut().ok().map(|mut held| std::mem::take(&mut *held));
    UNREAD.try_with(take).ok()?.filter(|held| !held.is_empty())
}

/// Formats a reason as one line of limited length.
pub(super) fn shown(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    cut(&one_line(&lines.join("; ")), MAX_REASON).to_owned()
}

/// Makes cuDNN write this thread's last error, if cuDNN is loaded.
///
/// # Safety
/// `message` has room for `max_size` bytes.
pub(super) unsafe fn fetch_cudnn_error(message: *mut c_char, max_size: usize) {
    if let Some(functions) = functions() {
        // SAFETY: the address belongs to cuDNN's function of this name.
        let function: unwinding::cudnnGetLastErrorString =
            unsafe { std::mem::transmute(functions.get_last_error_string) };
        // SAFETY: the caller's obligation, passed on.
        unsafe { function(message, max_size) };
    }
}

/// Returns cuDNN's functions, if cuDNN is loaded. They are unavailable before the log callback is installed, because
/// cuDNN logs calls to them.
pub(super) fn functions() -> Option<GraphFunctions> {
    graph_functions().filter(|_| !is_pending())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_single_lines_of_limited_length() {
        assert_eq!(shown("err 710 != cudaSuccess\n at: err\n"), "err 710 != cudaSuccess; at: err");
        assert_eq!(shown("\x1b[31m"), "\\u{1b}[31m");
        assert_eq!(shown(&"ä".repeat(2000)).len(), MAX_REASON);
        assert_eq!(shown(""), "");
    }
}
