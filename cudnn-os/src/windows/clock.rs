//! Reads clocks on Windows.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::time::SystemTime;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

unsafe extern "C" {
    fn wcsftime(text: *mut u16, length: usize, format: *const u16, time: *const libc::tm) -> usize;
}

pub fn file_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

pub fn local_time(format: &OsStr, seconds: u64) -> Option<OsString> {
    let format = checked(format)?;
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid during the call.
    if unsafe { libc::localtime_s(&raw mut time, &raw const seconds) } != 0 {
        return None;
    }
    let mut text = vec![0_u16; 4096];
    // SAFETY: the buffer has the passed length, the time is valid, and the format is NUL-terminated and contains only
    // conversions that every Windows C library supports.
    let length = unsafe { wcsftime(text.as_mut_ptr(), text.len(), format.as_ptr(), &raw const time) };
    text.get(..length).filter(|text| !text.is_empty()).map(OsString::from_wide)
}

/// Converts the format to a NUL-terminated string. Doubles the percent sign of an unsupported conversion, which would
/// make the C library end the process.
fn checked(format: &OsStr) -> Option<Vec<u16>> {
    const PERCENT: u16 = b'%' as u16;
    let mut checked = Vec::new();
    let mut units = format.encode_wide().peekable();
    while let Some(unit) = units.next() {
        checked.push(unit);
        if unit == PERCENT {
            let known =
                units.next_if(|unit| u8::try_from(*unit).is_ok_and(|byte| b"aAbBcdHIjmMpSUwWxXyYzZ%".contains(&byte)));
            checked.push(known.unwrap_or(PERCENT));
        }
    }
    if checked.contains(&0) {
        return None;
    }
    checked.push(0);
    Some(checked)
}

// Uses the performance counter, like other tracers.
#[inline]
pub fn monotonic() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: the output pointer is valid. The call always succeeds since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        u64::try_from(frequency).unwrap_or_default().max(1)
    });
    let mut counter = 0;
    // SAFETY: the output pointer is valid.
    unsafe { QueryPerformanceCounter(&raw mut counter) };
    let time = u128::from(counter.cast_unsigned()) * 1_000_000_000 / u128::from(frequency);
    u64::try_from(time).unwrap_or(u64::MAX)
}
