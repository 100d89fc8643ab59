//! cuDNN's last-error text, which is the innermost reason of a failure. `cudnnGetErrorString` fetches it before the
//! program does. cuDNN then has it no longer, so it is kept here for the program's `cudnnGetLastErrorString`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use cudnn_probe::one_line;
use cudnn_sys::signatures::unwinding;

use super::c_buffer::cut;
use crate::logging::callback::is_pending;
use crate::resolve::libraries::{GraphFunctions, graph_functions};
use crate::thread::fork::is_in_child;

/// More than cuDNN's longest texts.
const MAX_TEXT: usize = 16 << 10;
/// The part of a text that fits into an exception's message.
const MAX_REASON: usize = 1000;

thread_local! {
    /// What cuDNN gave, without the NUL, and the program has not fetched.
    static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Fetches cuDNN's text for this thread, and keeps it. Returns it as one line; `None` if there is none. It stays until
/// [`take`]: cuDNN does not clear its text either when a later call succeeds.
pub(super) fn hold() -> Option<String> {
    // A lock of cuDNN's may be taken for ever there.
    if is_in_child() {
        return None;
    }
    let mut fetched = vec![0_u8; MAX_TEXT];
    // SAFETY: the buffer has the length that is passed.
    unsafe { fetch_cudnn_error(fetched.as_mut_ptr().cast(), fetched.len()) };
    let fetched = CStr::from_bytes_until_nul(&fetched).map(CStr::to_bytes).unwrap_or_default();
    let replace = |held: &RefCell<Vec<u8>>| {
        let mut held = held.try_borrow_mut().ok()?;
        if !fetched.is_empty() {
            *held = fetched.to_vec();
        }
        (!held.is_empty()).then(|| shown(&String::from_utf8_lossy(&held)))
    };
    HELD.try_with(replace).ok()?
}

/// What [`hold`] has kept, which is nobody's from now on.
pub(super) fn take() -> Option<Vec<u8>> {
    let take = |held: &RefCell<Vec<u8>>| held.try_borrow_mut().ok().map(|mut held| std::mem::take(&mut *held));
    HELD.try_with(take).ok()?.filter(|held| !held.is_empty())
}

/// A reason as one line of limited length.
pub(super) fn shown(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    cut(&one_line(&lines.join("; ")), MAX_REASON).to_owned()
}

/// Lets cuDNN write its last error of this thread, if it is loaded.
///
/// # Safety
/// `message` has room for `max_size` bytes.
pub(super) unsafe fn fetch_cudnn_error(message: *mut c_char, max_size: usize) {
    if let Some(functions) = functions() {
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: unwinding::cudnnGetLastErrorString =
            unsafe { std::mem::transmute(functions.get_last_error_string) };
        // SAFETY: the caller's obligation, passed on.
        unsafe { function(message, max_size) };
    }
}

/// cuDNN's functions, if cuDNN is loaded. It logs their calls, so it must have the log's callback first.
pub(super) fn functions() -> Option<GraphFunctions> {
    graph_functions().filter(|_| !is_pending())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_limited_length() {
        assert_eq!(shown("err 710 != cudaSuccess\n at: err\n"), "err 710 != cudaSuccess; at: err");
        assert_eq!(shown("\x1b[31m"), "\\u{1b}[31m");
        assert_eq!(shown(&"ä".repeat(2000)).len(), MAX_REASON);
        assert_eq!(shown(""), "");
    }
}
