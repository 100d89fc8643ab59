//! The environment as a whole, as it was at the start, and whether it can be trusted.

use std::ffi::OsString;

/// Returns `None`: a variable's value cannot be read as it was at the start, and nothing needs it, because Windows reads
/// `PATH` as it is now.
pub fn initial_value(_name: &str) -> Option<Option<OsString>> {
    None
}

/// Returns the value of a variable without the quotes around it: cmd takes them to be a part of it
/// (`set DIR="C:\a b"`), and no name of a file has one.
#[inline(never)]
pub fn without_quotes(value: OsString) -> OsString {
    let inner = |text: &str| Some(OsString::from(text.strip_prefix('"')?.strip_suffix('"')?));
    value.to_str().and_then(inner).unwrap_or(value)
}

/// Returns `false`: Windows does not start programs with the rights of others and the environment of a user.
#[cfg(feature = "native")]
#[must_use]
pub fn is_secure_execution() -> bool {
    false
}

#[cfg(feature = "native")]
pub use crate::std_environment::block;
