//! Random numbers.

use std::fs::File;
use std::io::{Error, Read, Result};

/// Fills the buffer with bytes that nobody can guess. Fails where Rust's hash tables would panic.
///
/// # Errors
/// The system's.
pub fn fill(into: &mut [u8]) -> Result<()> {
    // SAFETY: the buffer has this length.
    let len = unsafe { libc::getrandom(into.as_mut_ptr().cast(), into.len(), 0) };
    if usize::try_from(len) == Ok(into.len()) {
        return Ok(());
    }
    let error = Error::last_os_error();
    match error.raw_os_error() {
        // An old kernel, or a sandbox.
        Some(libc::ENOSYS | libc::EPERM) => File::open("/dev/urandom")?.read_exact(into),
        _ => Err(error),
    }
}
