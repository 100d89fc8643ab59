//! cuDNN's log, with this crate's own entries in it: received by a closure, written where one likes, read.
//!
//! ```no_run
//! use cudnn_loader::log::{self, Destination, Severity};
//!
//! // Before the first call or after it:
//! log::receive(&[Severity::Warning, Severity::Error], |event| eprintln!("{}: {}", event.entry.severity, event.entry))?;
//! // Or, in cuDNN's own form:
//! log::write(Severity::up_to(3), Destination::File("cudnn_%Y%m%d_%i.log".into()))?;
//! # Ok::<(), cudnn_loader::Error>(())
//! ```
//!
//! # This crate's own entries
//! What it searched, refused, took, loaded and failed to load goes where cuDNN's log goes and looks as its entries do, so that
//! one log tells the whole story, also when cuDNN never got loaded. The functions are `cudnn_loader::search`, `::pin` and
//! `::load`; a call that failed for want of cuDNN is an error of the function that was called.
//!
//! # From the environment
//! With nothing said in code, the variables of cuDNN's say what is written, read once: `CUDNN_LOGLEVEL_DBG` (0 nothing, 1
//! errors, 2 and warnings, 3 and calls; what is beyond is clipped) and `CUDNN_LOGDEST_DBG` (`NULL`, `stdout`, `stderr`, which
//! it is when unset, or a file: [`Destination::File`]); where there is no level, the older `CUDNN_LOGERR_DBG`,
//! `CUDNN_LOGWARN_DBG` and `CUDNN_LOGINFO_DBG`, each `1` for its own severity. In a program with raised privileges this crate
//! writes nothing on their account. [`entries`] reads a file that came of it.

mod callback;
mod destination;
mod entry;
mod own;

use std::ffi::{c_char, c_uint, c_void};
use std::time::{Duration, SystemTime};

use destination::Before;
pub use destination::Destination;
pub use entry::{Argument, Entry, Reason, Severity, parse};

pub(crate) use callback::{Callback, flush, in_use, set, tell};
pub(crate) use own::{failed, found, loaded, loading, not_loaded};

use crate::uncancelled::CancelDisabled;
use crate::{Error, cudnnDebug_t, cudnnHandle_t, cudnnSeverity_t, cudnnStatus_t};
use destination::Log;

// The bits of `cudnnSetCallback`'s mask: CUDNN_SEV_ERROR_EN, _WARNING_EN and _INFO_EN. What is fatal cannot be masked.
const ERRORS: c_uint = 1 << 1;
const WARNINGS: c_uint = 1 << 2;
const INFOS: c_uint = 1 << 3;

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

/// Has entries of these severities go to a closure, in the thread whose call they are of; errors in any case, which cuDNN
/// does not let go. A panic in it is contained. What was set before gets no more. Loads nothing: cuDNN is told when it is
/// loaded.
///
/// The closure is kept for the rest of the process, since a thread may be in it when another one takes its place. What it
/// brings about by calling cuDNN itself is not told to it by this crate.
///
/// # Errors
/// cuDNN is loaded and refuses.
pub fn set_hook(severities: &[Severity], closure: impl Fn(&Event) + Send + Sync + 'static) -> Result<(), Error> {
    let receiver: &'static Receiver = Box::leak(Box::new(Receiver(Box::new(closure))));
    send(severities, std::ptr::from_ref(receiver).cast_mut().cast(), take)
}

/// Has entries of these severities written there, errors in any case, in the form in which cuDNN writes them; in place of
/// what the environment says. What was set before gets no more. Loads nothing: cuDNN is told when it is loaded.
///
/// # Errors
/// cuDNN is loaded and refuses.
pub fn write_to(severities: &[Severity], destination: Destination) -> Result<(), Error> {
    let log: &'static Log = Box::leak(Box::new(Log::new(destination)));
    send(severities, std::ptr::from_ref(log).cast_mut().cast(), write_entry)
}

fn send(
    severities: &[Severity],
    data: *mut c_void,
    function: unsafe extern "C" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char),
) -> Result<(), Error> {
    let mask = severities.iter().fold(0, |mask, severity| mask | severity.bit());
    set(Callback::new(mask, data, Some(function)));
    Error::check(tell(), "cudnnSetCallback", crate::graph::cudnnGetLastErrorString)
}

/// cuDNN's graph library is about to be loaded; gives what [`join`] is to be told. None where nothing is written into a file.
pub(crate) fn before_cudnn() -> Option<Before> {
    Before::of(destination::env_config())
}

/// cuDNN's graph library is loaded, and has opened the file that the environment names; without `before`, by somebody else.
pub(crate) fn join(before: Option<&Before>) {
    let variables = destination::env_config();
    if variables.mask != 0 {
        variables.log.join(before);
    }
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Writes what cuDNN gives as it writes it itself.
///
/// # Safety
/// `log` is a `Log`; the rest as for [`take`].
unsafe extern "C" fn write_entry(
    severity: cudnnSeverity_t,
    log: *mut c_void,
    _: *const cudnnDebug_t,
    message: *const c_char,
) {
    // SAFETY: `write` gave it, and it is never freed.
    let Some(log) = (unsafe { log.cast::<Log>().as_ref() }) else { return };
    // cuDNN calls this in any call. Writing is where a thread is cancelled, and what unwinds it cannot be caught.
    let _uncancelled = CancelDisabled::new();
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the caller's obligation, passed on.
        let lines = unsafe { lines(message) };
        let lines = lines.iter().map(String::as_str);
        log.write(entry::marked(Severity::of(severity), lines).as_bytes());
    }));
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
    // As in `write_entry`.
    let _uncancelled = CancelDisabled::new();
    // Formatting or the closure may panic: into C no panic goes.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the caller's obligation, passed on.
        let lines = unsafe { lines(message) };
        let severity = Severity::of(severity);
        let since = Duration::from_secs(debug.time_sec.into()) + Duration::from_micros(debug.time_usec.into());
        (receiver.0)(&Event {
            entry: Entry::from_lines(severity, lines.iter().map(String::as_str)),
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
    set_hook(severities, |event| {
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
    set_hook(severities, |event| {
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
