//! Preserves the text of a thread's last cuDNN failure while a layer makes calls that may fail.
//!
//! cuDNN stores one text per thread. Reading it clears it, and the next failure replaces it.

use std::ffi::c_char;

use crate::cudnn::Cudnn;
use crate::program_memory::{accepted, write_text};
use crate::table::Table;
use crate::{thread, trial};

/// The texts from before this layer's calls, by the number of the thread. Threads may exit before they read their text.
pub(crate) static SAVED_TEXTS: Table<Vec<u8>> = Table::new(1024);

fn save(text: Vec<u8>) {
    if !text.is_empty() {
        SAVED_TEXTS.insert(thread::number() as usize, text);
    }
}

/// Runs calls that may fail and hides their error texts from the program. A destructor would call cuDNN while an
/// exception from the program's callback unwinds.
pub(crate) fn hide_errors<T>(cudnn: &Cudnn, work: impl FnOnce() -> T) -> T {
    let text = cudnn.take_last_error();
    save(text.clone());
    let result = work();
    // This also takes the saved text if a layer below shares it.
    cudnn.take_last_error();
    save(text);
    result
}

/// Runs calls of a layer, which other layers ignore, and hides their error texts.
pub(crate) fn own_calls<T>(cudnn: &Cudnn, work: impl FnOnce() -> T) -> T {
    hide_errors(cudnn, || trial::run(work))
}

/// Returns the text of the thread's last failure, which the program can still read.
pub(crate) fn peek(cudnn: &Cudnn) -> Vec<u8> {
    save(cudnn.take_last_error());
    SAVED_TEXTS.get(thread::number() as usize).unwrap_or_default()
}

pub(crate) fn set(cudnn: &Cudnn, text: &str) {
    cudnn.take_last_error();
    save(text.as_bytes().to_vec());
}

/// Completes a call of `cudnnGetLastErrorString`: replaces an empty text by the preserved text, and clears that, even if
/// the buffer is too small.
///
/// # Safety
/// These are the arguments of a call that has returned.
pub(crate) unsafe fn add_saved(message: *mut c_char, size: usize) {
    let Some(kept) = SAVED_TEXTS.remove(thread::number() as usize) else { return };
    // SAFETY: cuDNN has written a string if the buffer is not empty.
    let is_empty = size > 0 && unsafe { accepted(message.expose_provenance() as u64, 1) } == [0];
    if is_empty {
        // SAFETY: the buffer has `size` bytes, as guaranteed by the caller.
        unsafe { write_text(message, size, &kept) };
    }
}
