//! The end of the process.

use std::ffi::c_int;

/// Other threads run while exit handlers do, so an exit has to wait for those that must not be cut off.
pub(crate) const THREADS_RUN_ON: bool = true;

/// Calls the function when the process exits. What is registered last is called first.
pub(crate) fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function is of the right type, and the caller keeps this library loaded. If memory is short, one
    // handler fewer runs.
    let _: c_int = unsafe { libc::atexit(function) };
}

/// Whether this is the first thread of the process, whose end usually ends the process.
pub(crate) fn is_first_thread() -> bool {
    u32::try_from(super::thread_id()) == Ok(std::process::id())
}
