//! Preserves the text of a thread's last cuDNN failure while a layer makes calls that may fail.
//!
//! cuDNN stores one text per thread. Reading it clears it, and the next failure replaces it.

use std::cell::RefCell;
use std::ffi::c_char;

use crate::cudnn::Cudnn;

thread_local! {
    /// The text from before this layer's calls.
    static SAVED_TEXT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Runs calls that may fail and hides their error texts from the program. This does not use a destructor, because that
/// would call cuDNN while an exception from the program's callback unwinds.
pub(crate) fn hide_errors<T>(cudnn: &Cudnn, work: impl FnOnce() -> T) -> T {
    let text = cudnn.take_last_error();
    let save = || {
        if !text.is_empty() {
            let _ = SAVED_TEXT.try_with(|kept| kept.replace(Some(text.clone())));
        }
    };
    save();
    let result = work();
    // This also takes the saved text if a layer below shares it.
    cudnn.take_last_error();
    save();
    result
}

/// Returns the text of the thread's last failure, which the program can still read.
pub(crate) fn peek(cudnn: &Cudnn) -> Vec<u8> {
    let text = cudnn.take_last_error();
    let saved = SAVED_TEXT.try_with(|saved| {
        if !text.is_empty() {
            saved.replace(Some(text.clone()));
        }
        saved.borrow().clone()
    });
    saved.ok().flatten().unwrap_or(text)
}

/// Replaces the text of the thread's last failure.
pub(crate) fn set(cudnn: &Cudnn, text: &str) {
    cudnn.take_last_error();
    let _ = SAVED_TEXT.try_with(|kept| kept.replace(Some(text.as_bytes().to_vec())));
}

/// Implements `cudnnGetLastErrorString`: returns cuDNN's text, or else the preserved text. Clears both, even if the
/// buffer is too small.
///
/// # Safety
/// The same requirements as for cuDNN's function.
pub(crate) unsafe fn get(cudnn: &Cudnn, message: *mut c_char, size: usize) {
    if let Some(get) = cudnn.cudnnGetLastErrorString() {
        // SAFETY: guaranteed by the caller.
        unsafe { get(message, size) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { add_saved(message, size) };
}

/// Completes a call of `cudnnGetLastErrorString`: if cuDNN has returned an empty text, returns the preserved text.
///
/// # Safety
/// These are the arguments of a call that has returned.
pub(crate) unsafe fn add_saved(message: *mut c_char, size: usize) {
    let Some(kept) = SAVED_TEXT.try_with(RefCell::take).ok().flatten() else { return };
    // SAFETY: cuDNN has written a string if the buffer is not empty.
    let is_empty = !message.is_null() && size > 0 && unsafe { *message } == 0;
    if is_empty {
        let len = kept.len().min(size - 1);
        // SAFETY: the buffer has `size` bytes, as guaranteed by the caller.
        unsafe {
            message.copy_from_nonoverlapping(kept.as_ptr().cast(), len);
            message.add(len).write(0);
        }
    }
}
