//! Random numbers.

use std::io::{Error, Result};

use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};

/// Fills the buffer with bytes that nobody can guess.
///
/// # Errors
/// The system's.
pub fn fill(into: &mut [u8]) -> Result<()> {
    let len = u32::try_from(into.len()).map_err(Error::other)?;
    // SAFETY: the buffer has this length; with this flag, no algorithm is named.
    let status =
        unsafe { BCryptGenRandom(std::ptr::null_mut(), into.as_mut_ptr(), len, BCRYPT_USE_SYSTEM_PREFERRED_RNG) };
    if status == 0 { Ok(()) } else { Err(Error::other(format!("BCryptGenRandom failed with {status:#x}"))) }
}
