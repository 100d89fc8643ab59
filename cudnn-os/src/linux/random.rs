//! Generates random numbers.

use std::fs::File;
use std::io::{Error, Read, Result};

/// Fills the buffer with cryptographically secure random bytes. Returns an error in cases where the hash tables of std
/// would panic.
///
/// # Errors
/// Returns an error if the system call fails.
pub fn fill(into: &mut [u8]) -> Result<()> {
    // SAFETY: the buffer has this length.
    let len = unsafe { libc::getrandom(into.as_mut_ptr().cast(), into.len(), 0) };
    if usize::try_from(len) == Ok(into.len()) {
        return Ok(());
    }
    let error = Error::last_os_error();
    match error.raw_os_error() {
        // Old kernels and sandboxes do not support the system call.
        Some(libc::ENOSYS | libc::EPERM) => File::open("/dev/urandom")?.read_exact(into),
        _ => Err(error),
    }
}
