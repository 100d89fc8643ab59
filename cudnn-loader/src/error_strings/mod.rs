//! Implements `cudnnGetErrorString` and `cudnnGetLastErrorString`, which also work without an installed cuDNN. If cuDNN
//! is loaded, they call cuDNN's own functions.

pub(crate) mod c_buffer;
mod cudnn_reason;
mod device;

use std::ffi::{CStr, c_char};

use cudnn_os::at_load;
use cudnn_os::environment::is_secure_execution;
use cudnn_sys::signatures::unwinding;
use cudnn_sys::types::cudnnStatus_t;
use once_cell::race::OnceBool;

use self::c_buffer::{write_bytes, write_text};
use self::cudnn_reason::{fetch_cudnn_error, functions, shown};
use crate::error::status_name;
use crate::last_error::{intern, report_line, take_newer_flag, take_unreported};
use crate::logging::{callback, reasons};
use crate::thread::fork::is_in_child;

/// If set to 1, [`cudnnGetErrorString`](crate::cudnnGetErrorString) appends the reason of the thread's last failure to
/// the status name. The reason is the first line of the loader's report, or cuDNN's last-error text with facts about
/// the device. This helps with the many programs that print only this string.
///
/// The variable is read when the library or program that contains this crate is loaded, or at first use on Windows. It
/// is ignored in secure-execution mode.
pub const VERBOSE_VARIABLE: &str = "CUDNN_LOADER_VERBOSE_ERRORS";

/// Returns the status name from the loaded cuDNN, which may know more names than this crate's table, or from the table.
pub(crate) unsafe extern "C-unwind" fn get_error_string(status: cudnnStatus_t) -> *const c_char {
    let name = name_of(status);
    if status.is_success() || !is_verbose() {
        return name;
    }
    // SAFETY: names from cuDNN and from the table are NUL-terminated static strings.
    let text = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let reason = reason_of(status, &text).unwrap_or_else(|| device::context(status));
    if reason.is_empty() { name } else { intern(format!("{text}{reason}")).unwrap_or(name) }
}

/// Returns the reason of this thread's last failure, as appended to the status name.
fn reason_of(status: cudnnStatus_t, name: &str) -> Option<String> {
    let logged = || reasons::last().filter(|failure| failure.status == name).map(|failure| shown(&failure.reason));
    // Recording the loader's own report clears cuDNN's text and the logged reason. If either exists, it is newer.
    match logged().or_else(cudnn_reason::read_and_store) {
        Some(reason) => Some(format!(": {reason}{}", device::context(status))),
        None => report_line(status).map(|line| format!(": {line}")),
    }
}

/// Subscribes to cuDNN's warnings and errors if error strings are verbose. Must run before the first call reaches
/// cuDNN.
pub(crate) fn listen_if_verbose() {
    if is_verbose() {
        reasons::start();
    }
}

at_load!(READ_VARIABLE: read_variable);

/// Reads the variable early, because reading is unsafe while a thread of the program calls `setenv`.
extern "C" fn read_variable() {
    is_verbose();
}

fn is_verbose() -> bool {
    static IS_VERBOSE: OnceBool = OnceBool::new();
    // Prevents the linker from dropping the entry as unreferenced.
    std::hint::black_box(&READ_VARIABLE);
    IS_VERBOSE
        .get_or_init(|| !is_secure_execution() && std::env::var_os(VERBOSE_VARIABLE).is_some_and(|value| value == "1"))
}

fn name_of(status: cudnnStatus_t) -> *const c_char {
    if let Some(functions) = functions() {
        // SAFETY: the address belongs to cuDNN's function of this name.
        let function: unwinding::cudnnGetErrorString = unsafe { std::mem::transmute(functions.get_error_string) };
        // SAFETY: the function accepts any value.
        return unsafe { function(status) };
    }
    status_name(status).as_ptr()
}

/// Writes the thread's last error, truncated to `max_size` bytes including the NUL, and clears it. Like cuDNN, it
/// clears the error even if the buffer is too small for any text (tested with 9.10.2, 9.19.0 and 9.28.0).
///
/// # Safety
/// `message` is null or has room for `max_size` bytes.
pub(crate) unsafe extern "C-unwind" fn get_last_error_string(message: *mut c_char, max_size: usize) {
    if message.is_null() || max_size == 0 {
        let mut discarded: [c_char; 1] = [0];
        // SAFETY: there is room for one byte.
        return unsafe { get_last_error_string(discarded.as_mut_ptr(), 1) };
    }
    // Otherwise, the text would be unavailable while another thread sets the first callback.
    callback::finish_installation();
    // SAFETY: there is room for one byte.
    unsafe { message.write(0) };
    // SAFETY: the caller's obligation, passed on.
    unsafe { fetch_cudnn_error(message, max_size) };
    if take_newer_flag() {
        // SAFETY: there is room for one byte.
        unsafe { message.write(0) };
    }
    let report = take_unreported();
    // SAFETY: there is room for one byte, which was written above.
    let cudnn_was_last = unsafe { message.read() } != 0;
    // Return cuDNN's error that `cudnnGetErrorString` has already read, unless a newer one replaces it.
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

/// Returns the thread's last error and clears it, like `cudnnGetLastErrorString`.
pub(crate) fn take_last_error() -> String {
    let mut text = [0; 4096];
    // SAFETY: the passed length matches the buffer.
    unsafe { get_last_error_string(text.as_mut_ptr(), text.len()) };
    // SAFETY: the function has written a NUL into the buffer.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

/// Clears cuDNN's last error of this thread, so that any error that cuDNN reports later is newer than the loader's. The
/// caller must let an exception from a log callback pass, because cuDNN logs the call.
///
/// Skipped in a forked child, because cuDNN's lock may never be released there. There the next request discards cuDNN's
/// error, because the loader's is marked as newer.
pub(crate) fn clear_cudnn_error() {
    cudnn_reason::take();
    reasons::forget();
    if is_in_child() {
        return;
    }
    let mut unread: [c_char; 8] = [0; 8];
    // SAFETY: the passed length matches the buffer.
    unsafe { fetch_cudnn_error(unread.as_mut_ptr(), unread.len()) };
    take_newer_flag();
}
