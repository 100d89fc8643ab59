//! A table of file descriptors for one thread. A program may close all descriptors at any time (`closefrom`) and then
//! open its own under the same numbers, while a thread in the background reads what it has opened.

/// Gives this thread a table of its own, with the three standard streams. Threads that it starts share it. What it opens
/// from now on is of no use to other threads, and what they have open is of none to it. `false` if the system refuses, as
/// containers on old kernels do.
#[must_use]
pub fn leave_shared_table() -> bool {
    // Before Linux 5.9: a copy of the table, with all that is open.
    // SAFETY: the call affects this thread alone.
    leave_all_from(3) || unsafe { libc::unshare(libc::CLONE_FILES) } == 0
}

/// Gives this thread an empty table of its own: it keeps nothing open that the program closes. `false` if the system
/// refuses, as kernels before 5.9 do.
pub fn leave_all() -> bool {
    leave_all_from(0)
}

fn leave_all_from(first: libc::c_uint) -> bool {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: the call affects the table of this thread alone, which has nothing open that is still needed.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) == 0 }
}
