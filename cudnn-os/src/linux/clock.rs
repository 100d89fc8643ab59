//! Times, as files and people have them.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const SECOND: i64 = 1_000_000_000;

/// Returns the time of the clock that the kernel takes for the times of files, in nanoseconds.
pub fn file_time() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has room.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Seconds and nanoseconds as one number.
pub(crate) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(SECOND).saturating_add(nanoseconds)
}

/// Returns the local time in a format of `strftime`. `None` if it is too long, empty or has a NUL.
pub fn local_time(format: &OsStr, seconds: u64) -> Option<OsString> {
    let format = CString::new(format.as_bytes()).ok()?;
    // The type has another name with musl.
    let seconds = i64::try_from(seconds).ok()?;
    // SAFETY: a structure of numbers and a pointer, for which zero is a value.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both live as long as the call.
    if unsafe { libc::localtime_r(&raw const seconds, &raw mut time) }.is_null() {
        return None;
    }
    let mut text = vec![0_u8; 4096];
    // SAFETY: the buffer has the length that is passed, the format ends in NUL, and the time is valid.
    let length = unsafe { libc::strftime(text.as_mut_ptr().cast(), text.len(), format.as_ptr(), &raw const time) };
    text.truncate(length);
    Some(OsString::from_vec(text)).filter(|text| !text.is_empty())
}

/// Returns the nanoseconds since the machine started: `CLOCK_MONOTONIC`, which other tracers use too.
#[inline]
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer has room. The call reads shared memory and usually makes no system call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}
