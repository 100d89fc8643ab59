//! Times, as files and people have them.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;
use std::time::SystemTime;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

unsafe extern "C" {
    fn wcsftime(text: *mut u16, length: usize, format: *const u16, time: *const libc::tm) -> usize;
}

/// Returns the time, in nanoseconds since 1970.
pub fn file_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the local time in a format of `strftime`. `None` if it is too long, empty or has a NUL.
pub fn local_time(format: &OsStr, seconds: u64) -> Option<OsString> {
    let format = checked(format)?;
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both live as long as the call.
    if unsafe { libc::localtime_s(&raw mut time, &raw const seconds) } != 0 {
        return None;
    }
    let mut text = vec![0_u16; 4096];
    // SAFETY: the buffer has the length that is passed, the format ends in NUL and has only conversions that every C
    // library of Windows knows, and the time is valid.
    let length = unsafe { wcsftime(text.as_mut_ptr(), text.len(), format.as_ptr(), &raw const time) };
    text.get(..length).filter(|text| !text.is_empty()).map(OsString::from_wide)
}

/// The format with a NUL at its end. The C library ends the process at a conversion that it does not know, so the
/// percent sign of such a one is doubled.
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

/// Returns the nanoseconds since the machine started: the performance counter, which other tracers use too.
#[inline]
pub fn monotonic() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: the answer has room. The call cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        u64::try_from(frequency).unwrap_or_default().max(1)
    });
    let mut counter = 0;
    // SAFETY: as above.
    unsafe { QueryPerformanceCounter(&raw mut counter) };
    let time = u128::from(counter.cast_unsigned()) * 1_000_000_000 / u128::from(frequency);
    u64::try_from(time).unwrap_or(u64::MAX)
}
