//! cuDNN's log, received by a closure: entries read, fields decoded.
//!
//! ```no_run
//! use cudnn_loader::log::{self, Severity};
//!
//! log::receive(&[Severity::Warning, Severity::Error], |event| eprintln!("{}: {}", event.entry.severity, event.entry))?;
//! # Ok::<(), cudnn_loader::Error>(())
//! ```
//!
//! The environment variables `CUDNN_LOGLEVEL_DBG` and `CUDNN_LOGDEST_DBG` send the log to a file instead; a callback, once
//! set, gets it in their place. `entries` reads such a file.

mod entry;

use std::ffi::{c_char, c_uint, c_void};
use std::time::{Duration, SystemTime};

pub use entry::{Argument, Entry, Reason, Severity, entries};

use crate::{Error, cudnnDebug_t, cudnnHandle_t, cudnnSeverity_t, cudnnStatus_t};

/// An entry as it comes, with what cuDNN says of it in numbers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The entry.
    pub entry: Entry,
    /// The status of the call; success for what is no failure.
    pub status: cudnnStatus_t,
    /// When.
    pub time: SystemTime,
    /// The handle; null without one.
    pub handle: cudnnHandle_t,
    /// The stream; null without one.
    pub stream: *mut c_void,
    /// The CUDA device; only with a handle, since cuDNN leaves it undefined without.
    pub device: Option<i32>,
}

/// The closure that entries go to, behind a thin pointer.
struct Receiver(Box<dyn Fn(&Event) + Send + Sync>);

/// Has entries of these severities go to a closure, in the thread whose call they are of; with none, to nothing. A panic in
/// it is contained. What was set before gets no more. Loads cuDNN.
///
/// The closure is kept for the rest of the process, since a thread may be in it when another one takes its place.
///
/// # Errors
/// cuDNN cannot be loaded, or refuses.
pub fn receive(severities: &[Severity], closure: impl Fn(&Event) + Send + Sync + 'static) -> Result<(), Error> {
    let bit = |severity: &Severity| -> c_uint {
        match severity {
            // CUDNN_SEV_ERROR_EN, _WARNING_EN and _INFO_EN; what is fatal cannot be masked.
            Severity::Fatal => 0,
            Severity::Error => 1 << 1,
            Severity::Warning => 1 << 2,
            Severity::Info => 1 << 3,
        }
    };
    let mask = severities.iter().fold(0, |mask, severity| mask | bit(severity));
    let receiver: &'static Receiver = Box::leak(Box::new(Receiver(Box::new(closure))));
    let receiver: *mut c_void = std::ptr::from_ref(receiver).cast_mut().cast();
    // SAFETY: the receiver lives for the rest of the process, and `take` reads it as what it is.
    let status = unsafe { crate::graph::cudnnSetCallback(mask, receiver, Some(take)) };
    Error::check(status, "cudnnSetCallback", crate::graph::cudnnGetLastErrorString)
}

/// What cuDNN calls.
///
/// # Safety
/// `receiver` is a `Receiver`; `debug` and `message` are what cuDNN gives: a structure, and lines with a NUL behind each
/// and one more at the end.
unsafe extern "C" fn take(
    severity: cudnnSeverity_t,
    receiver: *mut c_void,
    debug: *const cudnnDebug_t,
    message: *const c_char,
) {
    // SAFETY: `receive` gave it, and it is never freed.
    let Some(receiver) = (unsafe { receiver.cast::<Receiver>().as_ref() }) else { return };
    // SAFETY: cuDNN's own, for as long as this call lasts.
    let Some(debug) = (unsafe { debug.as_ref() }) else { return };
    // Formatting or the closure may panic: into C no panic goes.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the caller's obligation, passed on.
        let lines = unsafe { lines(message) };
        let severity = match severity.0 {
            0 => Severity::Fatal,
            1 => Severity::Error,
            2 => Severity::Warning,
            _ => Severity::Info,
        };
        let since = Duration::from_secs(debug.time_sec.into()) + Duration::from_micros(debug.time_usec.into());
        (receiver.0)(&Event {
            entry: Entry::of_lines(severity, lines.iter().map(String::as_str)),
            status: debug.cudnnStatus,
            time: SystemTime::UNIX_EPOCH + since,
            handle: debug.handle,
            stream: debug.stream.cast(),
            device: (!debug.handle.is_null()).then_some(debug.cudaDeviceId),
        });
    }));
}

/// # Safety
/// `message` is null, or lines with a NUL behind each, and one more at the end.
unsafe fn lines(message: *const c_char) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = message;
    while !next.is_null() {
        // SAFETY: a line, or the NUL behind the last.
        let line = unsafe { std::ffi::CStr::from_ptr(next) };
        if line.is_empty() {
            break;
        }
        found.push(line.to_string_lossy().into_owned());
        // SAFETY: behind the line's NUL stands another line, or one more NUL.
        next = unsafe { next.add(line.count_bytes() + 1) };
    }
    found
}

/// Has entries of these severities go to the crate `log`, with the target `cudnn`.
///
/// # Errors
/// As [`receive`].
#[cfg(feature = "log")]
pub fn to_log(severities: &[Severity]) -> Result<(), Error> {
    receive(severities, |event| {
        let level = match event.entry.severity {
            Severity::Fatal | Severity::Error => log::Level::Error,
            Severity::Warning => log::Level::Warn,
            Severity::Info => log::Level::Info,
        };
        log::log!(target: "cudnn", level, "{}", event.entry);
    })
}

/// Has entries of these severities go to the crate `tracing`, with the target `cudnn` and the fields `function`, `status`
/// and `thread`.
///
/// # Errors
/// As [`receive`].
#[cfg(feature = "tracing")]
pub fn to_tracing(severities: &[Severity]) -> Result<(), Error> {
    receive(severities, |event| {
        let Entry { function, thread, .. } = &event.entry;
        macro_rules! send {
            ($level:expr) => {
                tracing::event!(
                    target: "cudnn",
                    $level,
                    function = function.as_deref(),
                    status = event.status.0,
                    thread = *thread,
                    "{}",
                    event.entry
                )
            };
        }
        match event.entry.severity {
            Severity::Fatal | Severity::Error => send!(tracing::Level::ERROR),
            Severity::Warning => send!(tracing::Level::WARN),
            Severity::Info => send!(tracing::Level::INFO),
        }
    })
}
