//! Blocks signals while a thread starts another one, which inherits the mask.

/// Runs `start` with all signals blocked, so that the threads that it starts take none: signals are for the program's
/// threads.
pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    let _blocked = SignalsBlocked::new();
    start()
}

struct SignalsBlocked {
    previous: libc::sigset_t,
}

impl SignalsBlocked {
    #[inline(never)]
    fn new() -> Self {
        // SAFETY: sets of bits, for which zero is a value; the calls write both.
        unsafe {
            let (mut all, mut previous) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            // Signals that a crash in the thread itself raises stay deliverable, so that the program's crash handler
            // runs.
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP] {
                libc::sigdelset(&raw mut all, fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut previous);
            SignalsBlocked { previous }
        }
    }
}

impl Drop for SignalsBlocked {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the mask that the thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.previous, std::ptr::null_mut()) };
    }
}
