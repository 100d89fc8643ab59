//! Blocks signals for code that must not be interrupted or that starts threads, which inherit the signal mask.

use std::ffi::c_int;
use std::ptr::null_mut;

/// Signals that a fault in the thread itself raises.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// Runs `start` with signals blocked, so that the threads it starts do not handle signals for the program. Signals of
/// faults stay enabled for the program's crash handler.
pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    let _mask = SignalMask::block_all_except(&FAULTS);
    start()
}

/// Runs `work` with all signals blocked, so that no handler of the program interrupts it.
pub(crate) fn with_all_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let _mask = SignalMask::block_all_except(&[]);
    work()
}

/// Runs `work`, which may raise this signal in this thread, and discards the signal so that the program survives.
/// `is_raised` decides from the result whether the signal was raised.
pub(crate) fn without_signal<T>(signal: c_int, work: impl FnOnce() -> T, is_raised: impl FnOnce(&T) -> bool) -> T {
    // SAFETY: all-zero bytes are a valid signal set.
    let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mask = SignalMask::block(signal);
    // SAFETY: the signal set and the signal number are valid.
    let was_pending = unsafe {
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, signal) == 1
    };
    let result = work();
    if is_raised(&result) && !was_pending {
        discard_signal(signal);
    }
    drop(mask);
    result
}

/// Discards this blocked signal if it is pending for this thread.
pub(crate) fn discard_signal(signal: c_int) {
    // SAFETY: all-zero bytes are valid for both structures, and the signal number is valid. A timeout of zero does not
    // wait.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let now: libc::timespec = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigtimedwait(&raw const set, null_mut(), &raw const now);
    }
}

struct SignalMask {
    previous: libc::sigset_t,
}

impl SignalMask {
    #[inline(never)]
    fn block_all_except(exceptions: &[c_int]) -> Self {
        // SAFETY: all-zero bytes are a valid signal set, and the calls only write to it.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            for signal in exceptions {
                libc::sigdelset(&raw mut set, *signal);
            }
            set
        };
        SignalMask::add(&set)
    }

    fn block(signal: c_int) -> Self {
        // SAFETY: all-zero bytes are a valid signal set, and the calls only write to it.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            set
        };
        SignalMask::add(&set)
    }

    fn add(set: &libc::sigset_t) -> Self {
        // SAFETY: both signal sets are valid, and the call writes only to the second one.
        unsafe {
            let mut previous: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const *set, &raw mut previous);
            SignalMask { previous }
        }
    }
}

impl Drop for SignalMask {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this is the previous mask of the thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.previous, null_mut()) };
    }
}
