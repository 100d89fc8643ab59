//! Windows on x86-64. It has no `fork`, no signals and no cancellation of threads, and it ends the other threads before
//! it runs anything at the end of a process.

pub(crate) use super::unneeded::{cancel, fork};

pub(crate) mod clock;
pub(crate) mod libraries;
pub(crate) mod load;
pub(crate) mod log_file;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod readahead;
pub(crate) mod search;
pub(crate) mod threads;
mod wide;

use windows_sys::Win32::System::Threading::GetCurrentThreadId;

/// The number of this thread, unique in the system.
pub(crate) fn thread_id() -> i64 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { GetCurrentThreadId() }.into()
}

/// A program cannot close handles that it does not know.
pub(crate) mod descriptors {
    /// There is no table of a thread, and no need of one.
    #[must_use]
    pub(crate) fn leave_shared_table() -> bool {
        true
    }
}

/// Windows waits for a thread that is inside its loader, and then ends all threads but the one that exits, before DLLs
/// hear of the exit. So nothing runs that an exit could cut into, and nothing may wait for another thread.
pub(crate) mod exit {
    pub(crate) const THREADS_RUN_ON: bool = false;

    pub(crate) fn call_at_exit(_: extern "C" fn()) {}

    pub(crate) fn is_first_thread() -> bool {
        false
    }
}

pub(crate) mod memory {
    /// Limits of a job are of committed memory, of which the engines need little.
    pub(crate) fn is_limited() -> bool {
        false
    }
}
