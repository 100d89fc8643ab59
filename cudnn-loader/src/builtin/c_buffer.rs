//! Texts for callers in C, who pass a buffer.

use std::ffi::c_char;

/// Copies a text into a C buffer with `snprintf`'s contract: it truncates, always writes the NUL, and returns the full
/// length. A character of several bytes is copied completely or not at all.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
pub unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let mut end = text.len().min(size - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: `end` is less than `size`, and at most the text's length.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end) };
        // SAFETY: `end` is less than `size`.
        unsafe { buffer.add(end).write(0) };
    }
    text.len()
}
