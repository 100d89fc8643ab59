//! The text of a thread's last failure, which the calls of this layer must not change. cuDNN has one text for each
//! thread, gives it out once, and replaces it at the next failure.

use std::cell::RefCell;
use std::ffi::c_char;

use super::cudnn::Cudnn;

thread_local! {
    /// A text that cuDNN had before calls of this layer.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Runs calls of this layer that may fail. No destructor does the second part: it would call cuDNN while an exception
/// of the program's callback unwinds.
pub(super) fn unnoticed<T>(cudnn: &Cudnn, work: impl FnOnce() -> T) -> T {
    let text = cudnn.take_last_error();
    if !text.is_empty() {
        let _ = KEPT.try_with(|kept| kept.replace(Some(text)));
    }
    let result = work();
    cudnn.take_last_error();
    result
}

/// In place of `cudnnGetLastErrorString`: cuDNN's text, or the one that was kept if there is none. Both are gone then,
/// also if there is no room for any of it.
///
/// # Safety
/// As for cuDNN's function.
pub(super) unsafe fn get(cudnn: &Cudnn, message: *mut c_char, size: usize) {
    if let Some(get) = cudnn.cudnnGetLastErrorString {
        // SAFETY: the caller's obligation.
        unsafe { get(message, size) };
    }
    let Some(kept) = KEPT.try_with(RefCell::take).ok().flatten() else { return };
    // SAFETY: cuDNN has written a string here, if there is room.
    let is_empty = !message.is_null() && size > 0 && unsafe { *message } == 0;
    if is_empty {
        let len = kept.len().min(size - 1);
        // SAFETY: the caller gives this many bytes.
        unsafe {
            message.copy_from_nonoverlapping(kept.as_ptr().cast(), len);
            message.add(len).write(0);
        }
    }
}
