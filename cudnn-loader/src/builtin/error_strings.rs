//! `cudnnGetErrorString` and `cudnnGetLastErrorString`: the two functions that people read errors with. Both work with
//! nothing installed, and call cuDNN's functions if cuDNN is loaded.

use std::ffi::{CStr, c_char};

use cudnn_os::at_load;
use cudnn_os::environment::is_secure_execution;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::cudnnStatus_t;
use once_cell::race::OnceBool;

use super::c_buffer::{write_bytes, write_text};
use super::cudnn_reason::{self, fetch_cudnn_error, functions, shown};
use super::device;
use crate::error::status_name;
use crate::last_error::{intern, report_line, take_newer_flag, take_unreported};
use crate::logging::reasons;
use crate::thread::fork::is_in_child;

/// If set to 1, [`cudnnGetErrorString`](crate::cudnnGetErrorString) returns the reason of the thread's last failure
/// behind the status's name: the first line of the loader's report, or cuDNN's last-error text with what the loader can
/// see of the device. Many programs print nothing else. Read when the library or program that contains this crate is
/// loaded, and on Windows at its first use; ignored in secure-execution mode.
pub const VERBOSE_VARIABLE: &str = "CUDNN_LOADER_VERBOSE_ERRORS";

/// A status's name: from the loaded cuDNN, which may know more names than this crate's table, or from the table.
pub(super) unsafe extern "C-unwind" fn get_error_string(status: cudnnStatus_t) -> *const c_char {
    let name = name_of(status);
    if status.is_success() || !is_verbose() {
        return name;
    }
    // SAFETY: cuDNN's names and the table's are static strings that end in NUL.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let reason = reason_of(status, &text).unwrap_or_else(|| device::context(status));
    if reason.is_empty() { name } else { intern(format!("{text}{reason}")).unwrap_or(name) }
}

/// The reason of this thread's last failure, as it goes behind the status's name.
fn reason_of(status: cudnnStatus_t, name: &str) -> Option<String> {
    let logged = || reasons::last().filter(|failure| failure.status == name).map(|failure| shown(&failure.reason));
    // The loader has cleared cuDNN's text and what it logged with its own report: what there is is newer.
    match logged().or_else(cudnn_reason::hold) {
        Some(reason) => Some(format!(": {reason}{}", device::context(status))),
        None => report_line(status).map(|line| format!(": {line}")),
    }
}

/// Listens to cuDNN's warnings and errors if the strings are verbose, before the first call reaches it.
pub(crate) fn listen_if_verbose() {
    if is_verbose() {
        reasons::start();
    }
}

at_load!(READ_VARIABLE: read_variable);

/// The program may call `setenv` in another thread later, which is not safe beside a read.
extern "C" fn read_variable() {
    is_verbose();
}

fn is_verbose() -> bool {
    static IS_VERBOSE: OnceBool = OnceBool::new();
    // Keeps the entry where the linker drops what nothing refers to.
    std::hint::black_box(&READ_VARIABLE);
    IS_VERBOSE
        .get_or_init(|| !is_secure_execution() && std::env::var_os(VERBOSE_VARIABLE).is_some_and(|value| value == "1"))
}

fn name_of(status: cudnnStatus_t) -> *const c_char {
    if let Some(functions) = functions() {
        // SAFETY: the address is that of cuDNN's function of this name.
        let function: unwinding::cudnnGetErrorString = unsafe { std::mem::transmute(functions.get_error_string) };
        // SAFETY: it accepts any value.
        return unsafe { function(status) };
    }
    status_name(status).as_ptr()
}

/// Writes the thread's last error, cut to `max_size` bytes with the NUL, and clears it. As cuDNN does, it clears the error
/// also if there is no room for any of it (tried on 9.10.2, 9.19.0 and 9.28.0).
///
/// # Safety
/// `message` is null or has room for `max_size` bytes.
pub(super) unsafe extern "C-unwind" fn get_last_error_string(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        let mut discarded: [c_char; 1] = [0];
        // SAFETY: there is room for one byte.
        return unsafe { get_last_error_string(discarded.as_mut_ptr(), 1) };
    }
    // SAFETY: there is room for one byte.
    unsafe { message.write(0) };
    // SAFETY: the caller's obligation, passed on.
    unsafe { fetch_cudnn_error(message, max_size) };
    if take_newer_flag() {
        // SAFETY: there is room for one byte.
        unsafe { message.write(0) };
    }
    let report = take_unreported();
    // SAFETY: there is room for one byte, and it was written above.
    let cudnn_was_last = unsafe { message.read() } != 0;
    // cuDNN's error that `cudnnGetErrorString` has fetched before the program, unless a newer one replaces it.
    if let (Some(held), false) = (cudnn_reason::take(), cudnn_was_last) {
        // SAFETY: the caller's obligation, passed on.
        unsafe { write_bytes(&held, message, max_size) };
        return;
    }
    if let (Some(report), false) = (report, cudnn_was_last) {
        // SAFETY: the caller's obligation, passed on.
        unsafe { write_text(&report, message, max_size) };
    }
}

/// The thread's last error, as `cudnnGetLastErrorString` returns it, which then clears it.
pub(crate) fn take_last_error() -> String {
    let mut text = [0; 4096];
    // SAFETY: the buffer has the length that is passed.
    unsafe { get_last_error_string(text.as_mut_ptr(), text.len()) };
    // SAFETY: the function has written a NUL into the buffer.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

/// Clears cuDNN's last error of this thread, so that any error that cuDNN reports later is newer than ours. cuDNN logs
/// the call, so the caller must let the exception of a log callback pass.
///
/// Not in a child of a fork, where cuDNN's lock may be taken for ever. There the thread's next request discards cuDNN's
/// error, since ours is marked as newer.
pub(crate) fn clear_cudnn_error() {
    cudnn_reason::take();
    reasons::forget();
    if is_in_child() {
        return;
    }
    let mut unread: [c_char; 8] = [0; 8];
    // SAFETY: the buffer has the length that is passed.
    unsafe { fetch_cudnn_error(unread.as_mut_ptr(), unread.len()) };
    take_newer_flag();
}
