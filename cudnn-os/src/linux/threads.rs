//! Threads.

pub use crate::std_threads::*;

/// Returns the number of this thread, unique in the system.
pub fn id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).unwrap_or_default()
}
