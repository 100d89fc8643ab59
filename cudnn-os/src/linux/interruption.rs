//! Catches termination signals while a child runs in another session. Ctrl-C affects only this process, which must
//! first terminate the child. Otherwise, a signal ends the process, which can leave an answer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A signal number.
pub type Signal = libc::c_int;

/// Termination signals from terminals, batch systems and container runtimes.
const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The first signal that arrived, or 0.
static ARRIVED: AtomicI32 = AtomicI32::new(0);

/// The number of requests to stop, except for closed terminals, which shell and kernel both report.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The answer of an interrupted process.
static ANSWER: OnceLock<&'static str> = OnceLock::new();

/// What prints the process's answer.
static ANSWERED_BY: AtomicU32 = AtomicU32::new(NOTHING);
const NOTHING: u32 = 0;
const COMMAND: u32 = 1;
const SIGNAL: u32 = 2;

/// Makes `by` print the answer, or returns what was first.
fn answer_by(by: u32) -> Result<u32, u32> {
    ANSWERED_BY.compare_exchange(NOTHING, by, Ordering::Relaxed, Ordering::Relaxed)
}

/// Waits until another thread ends the process.
fn wait_for_end() -> ! {
    loop {
        // SAFETY: the call only waits.
        unsafe { libc::pause() };
    }
}

/// Prints this text on standard output if a termination signal ends the process before [`answered`] is called.
pub fn answer_with(text: &'static str) {
    let _ = ANSWER.set(text);
    for signal in SIGNALS {
        replace(signal, handler(end));
    }
}

/// Call this before printing an answer. Does not return if a signal was first.
pub fn answered() {
    if answer_by(COMMAND) == Err(SIGNAL) {
        wait_for_end();
    }
}

extern "C" fn end(signal: libc::c_int) {
    end_by(signal)
}

fn handler(function: extern "C" fn(libc::c_int)) -> libc::sighandler_t {
    function as libc::sighandler_t
}

/// Handles a signal with one of this module's functions, unless something else handles it. Returns the previous action.
fn replace(signal: libc::c_int, by: libc::sighandler_t) -> Option<libc::sighandler_t> {
    // SAFETY: the functions of this module are safe in signal handlers.
    let previous = unsafe { libc::signal(signal, by) };
    if [libc::SIG_DFL, handler(note), handler(end)].contains(&previous) {
        return Some(previous);
    }
    // SAFETY: the value was returned by the same function.
    unsafe { libc::signal(signal, previous) };
    None
}

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
        let caught = |signal: libc::c_int| Some((signal, replace(signal, handler(note))?));
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

/// Terminates this process by a signal, as if the signal were uncaught. Can be called in signal handlers.
pub fn end_by(signal: Signal) -> ! {
    // SAFETY: the text is valid. The set is initialized by a function of libc, and the others are plain integers.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        // Other signals must not end the process before the answer is printed. SIGQUIT may, because the write blocks if
        // nobody reads from a full pipe.
        for other in SIGNALS.into_iter().filter(|other| *other != libc::SIGQUIT) {
            libc::sigaddset(&raw mut set, other);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        if let Some(text) = ANSWER.get() {
            match answer_by(SIGNAL) {
                // If nobody reads the answer, nobody needs it.
                Ok(_) => _ = libc::write(libc::STDOUT_FILENO, text.as_ptr().cast(), text.len()),
                Err(SIGNAL) if signal != libc::SIGQUIT => wait_for_end(),
                Err(_) => {}
            }
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::_exit(128 + signal)
    }
}
