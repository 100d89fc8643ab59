//! Reads memory of the program and of cuDNN. Clippy rejects this in other modules.
//!
//! [`copy`] checks the addresses. Use it before a call, after a failed call, and for everything except elements that
//! cuDNN has read or written with exactly this type and number. The other functions are only for these.

use std::ffi::{CStr, c_char};

use cudnn_os::memory;

/// Returns a copy of memory, or `None` if it is partly unreadable or larger than 4 KiB.
pub(crate) fn copy(address: u64, len: usize) -> Option<Vec<u8>> {
    memory::copy(usize::try_from(address).ok()?, len)
}

/// Returns a copy of an address, for example of a descriptor.
pub(crate) fn copy_word(address: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(copy(address, size_of::<u64>())?.try_into().ok()?))
}

/// Returns bytes at an address that may be null.
///
/// # Safety
/// cuDNN has accessed exactly these bytes in a successful call, and no thread modifies them while the slice exists.
#[expect(clippy::disallowed_methods, reason = "this module reads the program's memory")]
#[inline]
pub(crate) unsafe fn accepted<'a>(address: u64, len: usize) -> &'a [u8] {
    if address == 0 || len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address as usize), len) }
}

/// Returns 64-bit numbers or addresses.
///
/// # Safety
/// As for [`accepted`].
#[inline]
pub(crate) unsafe fn accepted_words<'a>(address: u64, count: usize) -> impl Iterator<Item = u64> + 'a {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { accepted(address, count.saturating_mul(size_of::<u64>())) };
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word))
}

/// Returns a 64-bit number or address, or `None` if the address is null.
///
/// # Safety
/// As for [`accepted`].
#[inline]
pub(crate) unsafe fn accepted_word(address: u64) -> Option<u64> {
    // SAFETY: guaranteed by the caller.
    unsafe { accepted_words(address, 1) }.next()
}

/// Returns a text of up to `len` bytes without the NUL that may end it. The address may be null.
///
/// # Safety
/// As for [`accepted`], but cuDNN may have stopped reading after the NUL.
#[expect(clippy::disallowed_methods, reason = "this module reads the program's memory")]
pub(crate) unsafe fn accepted_text<'a>(address: u64, len: usize) -> &'a [u8] {
    let start: *const u8 = std::ptr::with_exposed_provenance(address as usize);
    let len = if start.is_null() { 0 } else { len };
    // SAFETY: guaranteed by the caller; this reads up to the first NUL.
    let len = (0..len).find(|at| unsafe { start.add(*at).read() } == 0).unwrap_or(len);
    // SAFETY: guaranteed by the caller.
    unsafe { accepted(address, len) }
}

/// Writes a text with a NUL to a buffer. Truncates it if necessary.
///
/// # Safety
/// The buffer has `size` bytes.
#[expect(clippy::disallowed_methods, reason = "this module writes the program's memory")]
pub(crate) unsafe fn write_text(buffer: *mut c_char, size: usize, text: &[u8]) {
    let Some(room) = size.checked_sub(1).filter(|_| !buffer.is_null()) else { return };
    let len = text.len().min(room);
    // SAFETY: guaranteed by the caller.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), len);
        buffer.add(len).write(0);
    }
}

/// Writes a 64-bit number to an address, unless it is null.
///
/// # Safety
/// cuDNN would write this number in the call of the program.
pub(crate) unsafe fn write_word(address: u64, word: u64) {
    let to: *mut u64 = std::ptr::with_exposed_provenance_mut(address as usize);
    if !to.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { to.write_unaligned(word) };
    }
}

/// Returns the lines of a message that cuDNN passes to a callback.
///
/// # Safety
/// `message` is null or consists of NUL-terminated lines and a final NUL, which live as long as the iterator.
#[expect(clippy::disallowed_methods, reason = "this module reads cuDNN's memory")]
pub(crate) unsafe fn lines<'a>(message: *const c_char) -> impl Iterator<Item = &'a CStr> {
    let mut next = message;
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: guaranteed by the caller.
        let line = unsafe { CStr::from_ptr(next) };
        // The next line, or the final NUL, follows the line's NUL.
        next = next.wrapping_add(line.count_bytes() + 1);
        (!line.is_empty()).then_some(line)
    })
}
