//! Converts strings to and from NUL-terminated UTF-16.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::{OsStrExt, OsStringExt};

/// Returns the text with a terminating NUL, or `None` if it contains a NUL.
pub(crate) fn wide(text: &OsStr) -> Option<Vec<u16>> {
    let mut wide: Vec<u16> = text.encode_wide().collect();
    if wide.contains(&0) {
        return None;
    }
    wide.push(0);
    Some(wide)
}

/// Reads a string with a function that fills a buffer and returns the length. If the text does not fit, the function
/// must return at least the length of the buffer. It must return 0 if it fails.
pub(crate) fn read_wide(read: impl Fn(&mut [u16]) -> u32) -> Option<OsString> {
    const ENOUGH: usize = 1 << 15;
    let mut buffer = vec![0_u16; 300];
    loop {
        let length = read(&mut buffer) as usize;
        if length < buffer.len() {
            return buffer.get(..length).filter(|text| !text.is_empty()).map(OsString::from_wide);
        }
        if buffer.len() > ENOUGH {
            return None;
        }
        buffer.resize(ENOUGH + 1, 0);
    }
}
