//! Reads environment variables on Windows.

use std::ffi::OsString;

pub use crate::not_linux::environment::*;

// `set DIR="C:\a b"` in cmd makes the quotes part of the value, although file names cannot contain them.
#[inline(never)]
pub fn without_quotes(value: OsString) -> OsString {
    let inner = |text: &str| Some(OsString::from(text.strip_prefix('"')?.strip_suffix('"')?));
    value.to_str().and_then(inner).unwrap_or(value)
}
