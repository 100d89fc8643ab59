//! Blocks signals while code runs that they must not interrupt, or that starts a thread, which inherits the mask.

use std::ffi::c_int;
use std::ptr::null_mut;

/// Signals that a fault in the thread itself raises.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// Runs `start` with signals blocked, so that the threads that it starts take none: signals are for the program's threads.
/// Signals that a crash in the thread itself raises stay deliverable, so that the program's crash handler runs.
pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    let _mask = SignalMask::block_all_except(&FAULTS);
    start()
}

/// Runs `work` with all signals blocked, so that no handler of the program interrupts it.
pub(crate) fn with_all_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let _mask = SignalMask::block_all_except(&[]);
    work()
}

/// Runs `work`, which may raise this signal in this thread, and discards the signal, so that it does not end the program.
/// `is_raised` says, from the result, whether the signal was raised.
pub(crate) fn without_signal<T>(signal: c_int, work: impl FnOnce() -> T, is_raised: impl FnOnce(&T) -> bool) -> T {
    // SAFETY: a set of signals, for which zero is a value.
    let mut pending: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mask = SignalMask::block(signal);
    // SAFETY: the set exists, and so does the signal.
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

/// Discards this signal if it is pending for this thread, which blocks it.
pub(crate) fn discard_signal(signal: c_int) {
    // SAFETY: zero is a value of both; the set exists, and so does the signal. A timeout of zero waits for nothing.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let now: libc::timespec = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigtimedwait(&raw const set, null_mut(), &raw const now);
    }
}

/// Restores the signal mask of this thread when it is dropped.
struct SignalMask {
    previous: libc::sigset_t,
}

impl SignalMask {
    #[inline(never)]
    fn block_all_except(exceptions: &[c_int]) -> Self {
        // SAFETY: sets of bits, for which zero is a value; the calls write it.
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
        // SAFETY: as above.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            set
        };
        SignalMask::add(&set)
    }

    fn add(set: &libc::sigset_t) -> Self {
        // SAFETY: both sets exist, and zero is a value of the one that the call writes.
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
        // SAFETY: the mask that the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.previous, null_mut()) };
    }
}
