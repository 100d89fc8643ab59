//! Catches termination signals while a child runs in another session. Ctrl-C affects only this process, which must
//! first terminate the child.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A signal number.
pub type Signal = libc::c_int;

/// Termination signals from terminals, batch systems and container runtimes.
const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The first signal that arrived, or 0.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

/// The number of requests to stop, except for closed terminals, which shell and kernel both report.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(signal: libc::c_int) {
    if signal != libc::SIGHUP {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
    }
    let _ = ARRIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

/// Records termination signals while the value exists. Signals that were ignored at the start of the process stay
/// ignored. Values can be nested, and signals are recorded until the outer value is dropped.
pub struct Interruption {
    /// The signals with their previous actions.
    caught: Vec<(libc::c_int, libc::sighandler_t)>,
}

impl Interruption {
    /// Starts recording signals.
    pub fn catch() -> Interruption {
        let handler = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        let caught = |signal: libc::c_int| {
            // SAFETY: the handler only changes two atomic numbers.
            let previous = unsafe { libc::signal(signal, handler) };
            if previous == libc::SIG_DFL || previous == handler {
                return Some((signal, previous));
            }
            // SAFETY: the value was returned by the same function.
            unsafe { libc::signal(signal, previous) };
            None
        };
        Interruption { caught: SIGNALS.into_iter().filter_map(caught).collect() }
    }

    /// Returns the first signal that arrived.
    pub fn signal(&self) -> Option<Signal> {
        Some(ARRIVED.load(Ordering::Relaxed)).filter(|arrived| self.caught.iter().any(|(signal, _)| signal == arrived))
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        for (signal, previous) in &self.caught {
            // SAFETY: the value was returned by the same function.
            unsafe { libc::signal(*signal, *previous) };
        }
    }
}

/// Returns the number of recorded signals other than SIGHUP.
pub fn requests() -> u32 {
    REQUESTS.load(Ordering::Relaxed)
}

/// Terminates this process by a signal, as if the signal were uncaught.
pub fn end_by(signal: Signal) -> ! {
    // SAFETY: the arguments are plain integers.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    // Reached only if the signal is blocked.
    std::process::exit(128 + signal)
}
