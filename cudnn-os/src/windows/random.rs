//! Generates random numbers with BCryptGenRandom.

use std::io::{Error, Result};

use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};

pub fn fill(into: &mut [u8]) -> Result<()> {
    let len = u32::try_from(into.len()).map_err(Error::other)?;
    // SAFETY: the buffer has this length, and with this flag the algorithm handle may be null.
    let status =
        unsafe { BCryptGenRandom(std::ptr::null_mut(), into.as_mut_ptr(), len, BCRYPT_USE_SYSTEM_PREFERRED_RNG) };
    if status == 0 { Ok(()) } else { Err(Error::other(format!("BCryptGenRandom failed with {status:#x}"))) }
}
