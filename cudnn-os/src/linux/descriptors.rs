//! Gives a background thread a private file descriptor table, and closes the descriptors of a forked process.
//!
//! A program may close all descriptors at any time (`closefrom`) and open other files under the same numbers, even
//! while a background thread uses them.

/// Gives this thread and its new threads a private descriptor table with only the three standard streams. Descriptors
/// that are opened later are invalid in other threads, and vice versa. Returns `false` if the system does not allow it,
/// for example in containers on old kernels.
pub fn leave_shared_table() -> bool {
    // Before Linux 5.9, use a copy of the complete table.
    // SAFETY: the call affects only this thread.
    leave_all_from(3) || unsafe { libc::unshare(libc::CLONE_FILES) } == 0
}

/// Gives this thread an empty private descriptor table, because it would otherwise hold files open that the program
/// closes. Returns `false` if the system does not allow it, for example before Linux 5.9.
pub fn leave_all() -> bool {
    leave_all_from(0)
}

/// Closes all descriptors from this number, in a process with a single thread that no longer uses them.
#[cfg(feature = "processes")]
pub(super) fn close_all_from(first: libc::c_int) {
    /// New descriptors get the lowest free numbers, so larger ones are rare.
    const MANY: libc::c_int = 1 << 16;
    if !leave_all_from(first.cast_unsigned()) {
        // Before Linux 5.9, close one descriptor at a time.
        for number in first..MANY {
            // SAFETY: the caller no longer uses the descriptor.
            unsafe { libc::close(number) };
        }
    }
}

fn leave_all_from(first: libc::c_uint) -> bool {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: the call affects only the table of this thread, which no longer needs any open descriptor.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) == 0 }
}
