//! Registers exit handlers on Windows.
//!
//! Before Windows notifies DLLs about the exit, it waits for threads inside the loader and then terminates all other
//! threads. Exit handlers therefore must not wait for another thread.

use std::ffi::c_int;

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

// Called when the C library of this DLL shuts down, after the other threads have exited.
pub fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function has the right type, and the caller keeps the DLL loaded.
    let _: c_int = unsafe { atexit(function) };
}

pub const THREADS_RUN_ON: bool = false;

/// Returns `false`, because the end of the first thread goes unnoticed.
pub fn is_first_thread() -> bool {
    false
}
