//! This process and its threads.

use std::ffi::c_int;

/// Whether the process runs in secure-execution mode (`AT_SECURE`): its environment comes from a less privileged user.
pub(crate) fn is_secure_execution() -> bool {
    // SAFETY: the call reads the process's auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The number of this process.
pub(crate) fn id() -> u32 {
    std::process::id()
}

/// The number of this thread, unique in the system.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).unwrap_or_default()
}

/// Calls the function when the process exits by `exit` or by returning from `main`. What is registered last is called
/// first.
pub(crate) fn call_at_exit(function: extern "C" fn()) {
    // SAFETY: the function is of the right type, and the loader never unloads a layer. If memory is short, one handler
    // fewer runs.
    let _: c_int = unsafe { libc::atexit(function) };
}
