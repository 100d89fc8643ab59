//! A thread of the store's.

use super::unnoticed::with_signals_blocked;

/// `CLOSE_RANGE_UNSHARE`: the calling thread's descriptors are no longer the process's.
const UNSHARE: libc::c_uint = 1 << 1;

/// Starts a thread for which nobody waits. None of the program's signal handlers runs in it. Returns whether it
/// started.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(1 << 20);
    let work = || {
        leave_descriptors();
        work();
    };
    with_signals_blocked(|| builder.spawn(work)).is_ok()
}

/// From now on this thread has separate descriptors, and none at first: a program that closes all of its descriptors
/// meanwhile closes none of the thread's, and the thread closes none that the program then opens under their numbers.
/// Before Linux 5.9 nothing happens.
fn leave_descriptors() {
    let (first, last): (libc::c_uint, libc::c_uint) = (0, libc::c_uint::MAX);
    // SAFETY: the call takes numbers. It closes descriptors of this thread alone, which has none that it uses.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, UNSHARE) };
}
