//! The end of the process. Windows waits for a thread that is inside its loader, and then ends all threads but the one that
//! exits, before DLLs are told about the exit. So an exit interrupts nothing, and nothing may wait for another thread.

use std::ffi::c_int;

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Whether other threads run while exit handlers do.
pub const THREADS_RUN_ON: bool = false;

/// Calls the function when the C library of this DLL ends: when the process exits, after its other threads ended. The DLL
/// that contains the function must never be unloaded.
pub fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function is of the right type, and the caller keeps its DLL loaded.
    let _: c_int = unsafe { atexit(function) };
}

/// Returns `false`: the end of the first thread is not noticed.
pub fn is_first_thread() -> bool {
    false
}
