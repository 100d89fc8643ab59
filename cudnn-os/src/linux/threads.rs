//! Starts and identifies threads.

pub use crate::std_threads::*;

/// Returns the ID of this thread, which is unique in the system.
pub fn id() -> u32 {
    // SAFETY: the call involves no pointers and always succeeds.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).unwrap_or_default()
}
