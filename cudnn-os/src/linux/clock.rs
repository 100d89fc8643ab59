//! Reads clocks for file times, log timestamps and traces.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const SECOND: i64 = 1_000_000_000;

/// Returns the time from the clock for file times, in nanoseconds since 1970.
pub fn file_time() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the output pointer is valid.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    nanoseconds(time.tv_sec, time.tv_nsec)
}

pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(nanoseconds)
}

/// Formats a time with a `strftime` format. Returns `None` if the format has a NUL, or the result is empty or too long.
pub fn local_time(format: &OsStr, seconds: u64) -> Option<OsString> {
    let format = CString::new(format.as_bytes()).ok()?;
    // The name of this type is different in musl.
    let seconds = i64::try_from(seconds).ok()?;
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid during the call.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut time) }.is_null() {
        return None;
    }
    let mut text = vec![0_u8; 4096];
    // SAFETY: the buffer has the passed length, the format is NUL-terminated, and the time is valid.
    let length = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const time) };
    text.truncate(length);
    Some(OsString::from_vec(text)).filter(|text| !text.is_empty())
}

/// Returns the nanoseconds since the machine started, from `CLOCK_MONOTONIC` as in other tracers.
#[inline]
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the output pointer is valid. The call usually reads shared memory instead of entering the kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}
