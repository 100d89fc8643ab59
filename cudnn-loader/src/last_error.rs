//! The last load error's story, per thread, and the two string functions that cuDNN's users read errors with. Both
//! work with nothing installed.
//!
//! cuDNN keeps its own last message per thread and clears it when it is fetched. Whose message was last cannot be seen
//! from here, because a warm call goes straight to cuDNN. So when a story of ours is recorded, cuDNN's message is
//! fetched away: whatever cuDNN has to say afterwards is newer than ours.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, PoisonError};

use crate::error::status_name;
use crate::{Function, cudnnStatus_t, loading};

thread_local! {
    static LAST_ERROR: RefCell<Option<LastError>> = const { RefCell::new(None) };
}

/// What `cudnnGetErrorString` has returned that was more than a name. Kept for good, as cuDNN's own texts are: callers keep
/// the pointer. No more than `MOST_TEXTS`, each once.
static INTERNED: Mutex<Vec<CString>> = Mutex::new(Vec::new());
const MAX_INTERNED: usize = 64;

/// Set to 1, has [`cudnnGetErrorString`](crate::cudnnGetErrorString) return the first line of the story behind the name of
/// the status: many programs print nothing else.
pub const VERBOSE_VARIABLE: &str = "CUDNN_LOADER_VERBOSE_ERRORS";

/// A failure that this crate has returned to the thread.
struct LastError {
    status: cudnnStatus_t,
    text: String,
    /// `cudnnGetLastErrorString` has told it, and does not tell it again.
    reported: bool,
    /// What cuDNN has to say is older, since it has not been fetched away yet.
    newer_than_cudnn: bool,
}

/// This thread's last failure to load, in full, also when `cudnnGetLastErrorString` has told it already.
#[must_use]
pub fn last_load_error() -> Option<String> {
    LAST_ERROR.try_with(|story| Some(story.try_borrow().ok()?.as_ref()?.text.clone())).ok()?
}

/// The functions that this crate answers itself.
pub(crate) fn builtin(function: Function) -> Option<*mut ()> {
    match function {
        Function::CudnnGetErrorString => Some(get_error_string as *const () as *mut ()),
        Function::CudnnGetLastErrorString => Some(get_last_error_string as *const () as *mut ()),
        _ => None,
    }
}

/// Makes this the thread's last error, as a failed call does. [`forget_cudnns`] belongs to it.
pub(crate) fn set(status: cudnnStatus_t, text: String) {
    // A thread that is ending has no place for it any more; then the status is all.
    let _ = LAST_ERROR
        .try_with(|story| story.replace(Some(LastError { status, text, reported: false, newer_than_cudnn: true })));
}

/// Has cuDNN forget its last message of this thread, so that what it says afterwards is newer than what was kept. cuDNN logs
/// that it is asked: to be called where an exception passes that a callback throws.
pub(crate) fn clear_cudnn_error() {
    let mut unread: [c_char; 8] = [0; 8];
    // SAFETY: the buffer has the length that is said.
    unsafe { fetch_cudnn_error(unread.as_mut_ptr(), unread.len()) };
    take_newer_flag();
}

/// Is the thread's story newer than what cuDNN has just been asked for? From now on it is not.
fn take_newer_flag() -> bool {
    let take = |story: &RefCell<Option<LastError>>| {
        Some(std::mem::take(&mut story.try_borrow_mut().ok()?.as_mut()?.newer_than_cudnn))
    };
    LAST_ERROR.try_with(take).ok().flatten().unwrap_or(false)
}

/// A status's name. From the loaded cuDNN when there is one, which knows more than this release; else from the table.
unsafe extern "C-unwind" fn get_error_string(status: cudnnStatus_t) -> *const c_char {
    let name = name_of(status);
    if !is_verbose() {
        return name;
    }
    // SAFETY: cuDNN's names and the table's are static texts that end in NUL.
    let text = unsafe { CStr::from_ptr(name) };
    verbose_string(status, text).unwrap_or(name)
}

fn is_verbose() -> bool {
    std::env::var_os(VERBOSE_VARIABLE).is_some_and(|value| value == "1")
}

/// The name and the first line of the thread's story, if the story is of that status. A static text.
fn verbose_string(status: cudnnStatus_t, name: &CStr) -> Option<*const c_char> {
    let line = LAST_ERROR
        .try_with(|story| {
            let story = story.try_borrow().ok()?;
            let story = story.as_ref().filter(|story| story.status == status)?;
            story.text.lines().next().map(str::to_owned)
        })
        .ok()??;
    let text = CString::new(format!("{}: {line}", name.to_string_lossy())).ok()?;
    let mut texts = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return Some(known.as_ptr());
    }
    if texts.len() == MAX_INTERNED {
        return None;
    }
    texts.push(text);
    // The letters stay where they are when the list grows, and none is ever taken out of it.
    texts.last().map(|text| text.as_ptr())
}

fn name_of(status: cudnnStatus_t) -> *const c_char {
    if let Some(strings) = loading::error_string_fns() {
        type Signature = unsafe extern "C-unwind" fn(cudnnStatus_t) -> *const c_char;
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: Signature = unsafe { std::mem::transmute(strings.error) };
        // SAFETY: it takes any value.
        return unsafe { function(status) };
    }
    status_name(status).as_ptr()
}

/// Writes the thread's last message, cut to `max_size` bytes with the NUL, and forgets it.
///
/// # Safety
/// `message` is null or has room for `max_size` bytes.
unsafe extern "C-unwind" fn get_last_error_string(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        return;
    }
    // SAFETY: there is room for one byte.
    unsafe { message.write(0) };
    // SAFETY: the caller's obligation, passed on.
    unsafe { fetch_cudnn_error(message, max_size) };
    if take_newer_flag() {
        // SAFETY: there is room for one byte.
        unsafe { message.write(0) };
    }
    let story = LAST_ERROR.try_with(take_unreported).ok().flatten();
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

/// The thread's last error, as `cudnnGetLastErrorString` tells it, which then forgets it.
pub(crate) fn take() -> String {
    let mut text = [0; 4096];
    // SAFETY: the buffer has the length that is said.
    unsafe { get_last_error_string(text.as_mut_ptr(), text.len()) };
    let text: Vec<u8> = text.iter().map(|character| character.cast_unsigned()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&text).into_owned()
}

/// The thread's story, if it has not been told; from now on it has.
fn take_unreported(story: &RefCell<Option<LastError>>) -> Option<String> {
    let mut story = story.try_borrow_mut().ok()?;
    let story = story.as_mut().filter(|story| !story.reported)?;
    story.reported = true;
    Some(story.text.clone())
}

/// Has cuDNN write its last message of this thread, if it is loaded.
///
/// # Safety
/// `message` has room for `max_size` bytes.
unsafe fn fetch_cudnn_error(message: *mut c_char, max_size: usize) {
    if let Some(strings) = loading::error_string_fns() {
        type Signature = unsafe extern "C-unwind" fn(*mut c_char, usize);
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: Signature = unsafe { std::mem::transmute(strings.last_error) };
        // SAFETY: the caller's obligation, passed on.
        unsafe { function(message, max_size) };
    }
}
