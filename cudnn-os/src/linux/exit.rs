//! Registers exit handlers.

use std::ffi::c_int;

/// Whether other threads run during exit handlers, so that an exit must wait for uninterruptible threads.
pub const THREADS_RUN_ON: bool = true;

/// Registers a function to call when the process exits normally, in reverse order of registration. The library that
/// contains the function must never be unloaded.
pub fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function has the right type, and the caller keeps the library loaded. If memory is exhausted, the
    // handler is skipped.
    let _: c_int = unsafe { libc::atexit(function) };
}

/// Returns whether this is the first thread of the process, which usually ends with this thread.
pub fn is_first_thread() -> bool {
    super::threads::id() == std::process::id()
}
