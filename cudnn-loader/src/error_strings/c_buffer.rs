//! Writes text into buffers that C callers provide.

use std::ffi::c_char;

/// Copies text into a C buffer as `snprintf` does: truncates it if necessary, always writes the NUL, and returns the
/// full length. Multi-byte characters are never split.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
pub unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        // SAFETY: the buffer is not null, and the size is not 0.
        unsafe { write_bytes(cut(text, size - 1).as_bytes(), buffer, size) };
    }
    text.len()
}

/// Returns the start of the text, of at most `max` bytes. Multi-byte characters are never split.
pub(super) fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Copies bytes into a C buffer, truncated to fit and followed by a NUL.
///
/// # Safety
/// `buffer` has room for `size` bytes, and `size` is not 0.
pub(super) unsafe fn write_bytes(bytes: &[u8], buffer: *mut c_char, size: usize) {
    let end = bytes.len().min(size - 1);
    // SAFETY: `end` is less than `size`, and at most the number of bytes.
    unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), end) };
    // SAFETY: `end` is less than `size`.
    unsafe { buffer.add(end).write(0) };
}
