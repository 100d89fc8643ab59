//! The boundary to C of every function of `cudnn_shim.h`: stops panics, fills the caller's buffers.

use std::ffi::c_char;

/// Runs `f`; returns `None` if it panics. Nothing here should panic, but a bug must not unwind into C.
pub(crate) fn catch_panic<T>(f: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    // A cancelled thread unwinds too, and that would abort the process in Rust code.
    let _not_cancelled = cudnn_loader::__private::CancelDisabled::new();
    std::panic::catch_unwind(f).ok()
}

/// Copies a text into a C buffer with `snprintf`'s contract: it truncates, always writes the NUL, and returns the full
/// length.
///
/// # Safety
/// `buffer` is null or has room for `size` bytes.
pub(crate) unsafe fn write_text(text: &str, buffer: *mut c_char, size: usize) -> usize {
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
