//! Reads environment variables on Windows.

use std::ffi::OsString;

// In cmd, `set DIR="C:\a b"` makes the quotes part of the value, although file names cannot contain them.
#[inline(never)]
pub fn without_quotes(value: OsString) -> OsString {
    let inner = |text: &str| Some(OsString::from(text.strip_prefix('"')?.strip_suffix('"')?));
    value.to_str().and_then(inner).unwrap_or(value)
}

/// Returns `None`, because the initial environment is unavailable. Windows uses the current `PATH` anyway.
pub fn initial_value(_name: &str) -> Option<Option<OsString>> {
    None
}

/// Returns `false`, because Windows does not run elevated programs in the environment of another user.
pub fn is_secure_execution() -> bool {
    false
}

#[cfg(feature = "native")]
pub fn block() -> Option<Vec<u8>> {
    let entry =
        |(name, value): (OsString, OsString)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat();
    Some(std::env::vars_os().flat_map(entry).collect())
}
