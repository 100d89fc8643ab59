//! What a program must not notice of system calls that are made beside its own: for layers and other code that runs in
//! its threads.

use std::ffi::c_int;

unsafe extern "C" {
    // The crate `libc` does not declare it for Linux.
    fn pthread_setcancelstate(state: c_int, previous: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`, in glibc and musl.
const CANCEL_DISABLE: c_int = 1;

/// Keeps `errno`, and keeps the thread from being cancelled: that would unwind through functions that do not unwind.
pub struct Unnoticed {
    errno: c_int,
    cancel_state: c_int,
}

impl Default for Unnoticed {
    fn default() -> Self {
        Self::new()
    }
}

impl Unnoticed {
    /// Begins. Dropping it ends.
    pub fn new() -> Self {
        let mut cancel_state = 0;
        // SAFETY: both calls concern this thread alone, and the answer has room.
        unsafe {
            let errno = *libc::__errno_location();
            pthread_setcancelstate(CANCEL_DISABLE, &raw mut cancel_state);
            Unnoticed { errno, cancel_state }
        }
    }
}

/// Does work that may raise this signal in this thread, which then never arrives: it must not end the program. Returns
/// what the work returned, which shows whether it was raised.
pub fn without_signal<T>(signal: c_int, work: impl FnOnce() -> T, is_raised: impl FnOnce(&T) -> bool) -> T {
    // SAFETY: sets of signals, for which zero is a value.
    let (mut set, mut previous, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: all three exist, and so does the signal.
    let was_pending = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut previous);
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, signal) == 1
    };
    let result = work();
    if is_raised(&result) && !was_pending {
        discard_signal(signal);
    }
    // SAFETY: the set exists.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const previous, std::ptr::null_mut()) };
    result
}

/// Does work with all signals blocked: no handler of the program interrupts it. A thread that is started has them
/// blocked for good, so no handler runs in it.
pub fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals, for which zero is a value.
    let (mut all, mut previous): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: both exist.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut previous);
    }
    let result = work();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const previous, std::ptr::null_mut()) };
    result
}

/// Discards this signal if it is pending for this thread, which blocks it.
pub fn discard_signal(signal: c_int) {
    // SAFETY: zero is a value of both; the set exists, and so does the signal. A timeout of zero waits for nothing.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let now: libc::timespec = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now);
    }
}

impl Drop for Unnoticed {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above.
        unsafe {
            pthread_setcancelstate(self.cancel_state, &raw mut ignored);
            *libc::__errno_location() = self.errno;
        }
    }
}
