//! A table of file descriptors for one thread. A program may close all descriptors at any time (`closefrom`) and then
//! open its own under the same numbers, while a thread in the background reads what it has opened.

/// Gives this thread a table of its own, with the three standard streams. Threads that it starts share it. What it opens
/// from now on is of no use to other threads, and what they have open is of none to it. `false` if the system refuses, as
/// containers on old kernels do.
#[must_use]
pub(crate) fn leave_shared_table() -> bool {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: the call affects the table of this thread alone, which has nothing open that is still needed.
    let has_left = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) } == 0;
    // Before Linux 5.9: a copy of the table, with all that is open.
    // SAFETY: the call affects this thread alone.
    has_left || unsafe { libc::unshare(libc::CLONE_FILES) } == 0
}
