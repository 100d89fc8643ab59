//! Signals that end this process while it waits for a child in another session: Ctrl-C does not reach that one, so this
//! process ends it first.

use std::sync::atomic::{AtomicI32, Ordering};

/// The number of a signal.
pub type Signal = libc::c_int;

/// The signals of a terminal, of a batch system and of a container.
const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The first signal that arrived; 0 for none.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    let _ = ARRIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

/// While it lives, the signals are noted that would end this process. A signal that was ignored when the process started
/// stays ignored.
pub struct Interruption {
    caught: Vec<libc::c_int>,
}

impl Interruption {
    /// Begins to note signals.
    #[must_use]
    pub fn catch() -> Interruption {
        let handler = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        let is_caught = |signal: &libc::c_int| {
            // SAFETY: the handler does nothing but store a number.
            let previous = unsafe { libc::signal(*signal, handler) };
            if previous != libc::SIG_DFL {
                // SAFETY: the value is from the same call.
                unsafe { libc::signal(*signal, previous) };
            }
            previous == libc::SIG_DFL
        };
        Interruption { caught: SIGNALS.into_iter().filter(is_caught).collect() }
    }

    /// Returns the signal that arrived first.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        Some(ARRIVED.load(Ordering::Relaxed)).filter(|signal| self.caught.contains(signal))
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        for signal in &self.caught {
            // SAFETY: the signal had its default action before.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

/// Ends this process by a signal, as if it had not been caught.
pub fn end_by(signal: Signal) -> ! {
    // SAFETY: both calls take numbers.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    // Where the signal is blocked.
    std::process::exit(128 + signal)
}
