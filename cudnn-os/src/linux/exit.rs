//! The end of the process.

use std::ffi::c_int;

/// Whether other threads run while exit handlers do, so that an exit has to wait for those that must not be interrupted.
pub const THREADS_RUN_ON: bool = true;

/// Calls the function when the process exits by `exit` or by returning from `main`. The function that was registered last
/// is called first. The library that contains the function must never be unloaded.
pub fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function is of the right type, and the caller keeps its library loaded. If memory is short, one handler
    // fewer runs.
    let _: c_int = unsafe { libc::atexit(function) };
}

/// Whether this is the first thread of the process, whose end usually ends the process.
pub fn is_first_thread() -> bool {
    super::threads::id() == std::process::id()
}
