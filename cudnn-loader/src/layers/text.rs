//! Converts paths and names to the strings that layers receive.

use std::ffi::{CString, OsStr};
use std::path::Path;

/// Returns a path as layers receive it: its bytes on Linux, UTF-8 on Windows.
pub(super) fn c_path(path: &Path) -> CString {
    c_string(path.as_os_str())
}

/// Converts a path or the value of an environment variable. Neither can contain NUL.
pub(super) fn c_string(text: &OsStr) -> CString {
    CString::new(text.as_encoded_bytes()).unwrap_or_default()
}
