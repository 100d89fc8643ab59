//! The last load error's story, per thread, and the two string functions that cuDNN's users read errors with. Both
//! work with nothing installed.
//!
//! cuDNN keeps its own last message per thread and clears it when it is fetched. Whose message was last cannot be seen
//! from here, because a warm call goes straight to cuDNN. So when a story of ours is recorded, cuDNN's message is
//! fetched away: whatever cuDNN has to say afterwards is newer than ours.

use std::cell::RefCell;
use std::ffi::c_char;

use crate::{Function, LoadError, cudnnStatus_t, loading};

thread_local! {
    static STORY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The functions that this crate answers itself.
pub(crate) fn own(function: Function) -> Option<*mut ()> {
    match function {
        Function::CudnnGetErrorString => Some(get_error_string as *const () as *mut ()),
        Function::CudnnGetLastErrorString => Some(get_last_error_string as *const () as *mut ()),
        _ => None,
    }
}

/// Makes this the thread's last error.
pub(crate) fn record(error: &LoadError) {
    record_story(error.to_string());
}

/// Makes this text the thread's last error.
pub(crate) fn record_story(text: String) {
    let mut unread: [c_char; 8] = [0; 8];
    // SAFETY: the buffer has the length that is said.
    unsafe { fetch_cudnns(unread.as_mut_ptr(), unread.len()) };
    // A thread that is ending has no place for it any more; then the status is all.
    let _ = STORY.try_with(|story| story.replace(Some(text)));
}

/// A status's name. From the loaded cuDNN when there is one, which knows more than this release; else from the table.
unsafe extern "C" fn get_error_string(status: cudnnStatus_t) -> *const c_char {
    if let Some(strings) = loading::strings() {
        type Signature = unsafe extern "C" fn(cudnnStatus_t) -> *const c_char;
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: Signature = unsafe { std::mem::transmute(strings.error) };
        // SAFETY: it takes any value.
        return unsafe { function(status) };
    }
    status.name().unwrap_or(c"CUDNN_STATUS_UNKNOWN").as_ptr()
}

/// Writes the thread's last message, cut to `max_size` bytes with the NUL, and forgets it.
///
/// # Safety
/// `message` is null or has room for `max_size` bytes.
unsafe extern "C" fn get_last_error_string(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        return;
    }
    // SAFETY: there is room for one byte.
    unsafe { message.write(0) };
    // SAFETY: the caller's obligation, passed on.
    unsafe { fetch_cudnns(message, max_size) };
    let story = STORY.try_with(|story| story.take()).ok().flatten();
    // SAFETY: there is room for one byte, and it was written above.
    let cudnn_was_last = unsafe { message.read() } != 0;
    if let (Some(story), false) = (story, cudnn_was_last) {
        let mut end = story.len().min(max_size - 1);
        while !story.is_char_boundary(end) {
            end -= 1;
        }
        // SAFETY: `end` is less than `max_size`, and less than or equal to the story's length.
        unsafe { message.cast::<u8>().copy_from_nonoverlapping(story.as_ptr(), end) };
        // SAFETY: `end` is less than `max_size`.
        unsafe { message.add(end).write(0) };
    }
}

/// Has cuDNN write its last message of this thread, if it is loaded.
///
/// # Safety
/// `message` has room for `max_size` bytes.
unsafe fn fetch_cudnns(message: *mut c_char, max_size: usize) {
    if let Some(strings) = loading::strings() {
        type Signature = unsafe extern "C" fn(*mut c_char, usize);
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: Signature = unsafe { std::mem::transmute(strings.last_error) };
        // SAFETY: the caller's obligation, passed on.
        unsafe { function(message, max_size) };
    }
}
