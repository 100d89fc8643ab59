//! Lets a Rust program receive log entries in a closure or write them to a file. cuDNN calls both through
//! `cudnnSetCallback`.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use cudnn_os::cancel::ThreadStateGuard;
use cudnn_sys::Error;
use cudnn_sys::types::{cudnnDebug_t, cudnnHandle_t, cudnnSeverity_t, cudnnStatus_t};

use super::callback::{self, Callback};
use super::entry::{self, LogEntry, LogSeverity};
use super::message::lines;
use super::sink::{Destination, Sink};
use crate::error_strings::get_last_error_string;
use crate::thread::reentrancy::ReentrancyGuard;

/// A log entry as it arrives, including the values that cuDNN passes separately as numbers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogEvent {
    /// The entry.
    pub entry: LogEntry,
    /// The status of the call; success for entries that report no failure.
    pub status: cudnnStatus_t,
    /// The time.
    pub time: SystemTime,
    /// The handle; null for calls without a handle.
    pub handle: cudnnHandle_t,
    /// The stream; null for calls without a stream.
    pub stream: *mut c_void,
    /// The CUDA device; `None` without a handle, because cuDNN leaves the device undefined then.
    pub device: Option<i32>,
}

/// A closure behind a thin pointer.
struct Hook(Box<dyn Fn(&LogEvent) + Send + Sync>);

/// Passes log entries of these severities to a closure, in the thread that made the call. Errors are always included,
/// because cuDNN does not let programs mask them. Replaces any hook or destination that was set before. If cuDNN is not
/// loaded yet, it gets the hook later.
///
/// The loader catches panics in the closure and drops entries that the closure itself causes by calling cuDNN. The
/// closure is never dropped, because another thread may be running it when it is replaced.
///
/// # Errors
/// Fails if cuDNN is loaded and rejects the callback.
pub fn set_hook(severities: &[LogSeverity], closure: impl Fn(&LogEvent) + Send + Sync + 'static) -> Result<(), Error> {
    let hook: &'static Hook = Box::leak(Box::new(Hook(Box::new(closure))));
    install(severities, std::ptr::from_ref(hook).cast_mut().cast(), call_hook)
}

/// Writes log entries of these severities, and always errors, to a destination in cuDNN's format. Replaces any hook or
/// destination that was set before, including the destination from the environment. If cuDNN is not loaded yet, it gets
/// the destination later.
///
/// # Errors
/// Fails if cuDNN is loaded and rejects the callback.
pub fn write_to(severities: &[LogSeverity], destination: Destination) -> Result<(), Error> {
    let sink: &'static Sink = Box::leak(Box::new(Sink::new(destination)));
    install(severities, std::ptr::from_ref(sink).cast_mut().cast(), write_entry)
}

fn install(
    severities: &[LogSeverity],
    data: *mut c_void,
    function: unsafe extern "C" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char),
) -> Result<(), Error> {
    let mask = severities.iter().fold(0, |mask, severity| mask | severity.bit());
    callback::set(Callback::new(mask, data, Some(function)));
    // SAFETY: both functions belong to the same cuDNN.
    unsafe { Error::check(callback::install(), "cudnnSetCallback", last_error) }
}

/// `cudnnGetLastErrorString`, as cuDNN's headers declare it.
unsafe extern "C" fn last_error(message: *mut c_char, max_size: usize) {
    // SAFETY: the caller's obligation, passed on.
    unsafe { get_last_error_string(message, max_size) }
}

thread_local! {
    static IS_IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// The callback for a [`Hook`]. cuDNN may call it in any function.
///
/// # Safety
/// `hook` is a `Hook`. `debug` and `message` are as cuDNN passes them: a structure, and NUL-terminated lines followed
/// by a final NUL.
unsafe extern "C" fn call_hook(
    severity: cudnnSeverity_t,
    hook: *mut c_void,
    debug: *const cudnnDebug_t,
    message: *const c_char,
) {
    // SAFETY: `set_hook` passed this pointer, and the hook is never freed.
    let Some(hook) = (unsafe { hook.cast::<Hook>().as_ref() }) else { return };
    // SAFETY: cuDNN's structure lives as long as this call.
    let Some(debug) = (unsafe { debug.as_ref() }) else { return };
    // The closure may call cuDNN, which would call the hook again in an endless recursion.
    let Some(_in_hook) = ReentrancyGuard::enter(&IS_IN_HOOK) else { return };
    contain_panic(|| {
        // SAFETY: the caller's obligation, passed on.
        let lines = unsafe { lines(message) };
        let severity = LogSeverity::from_number(severity);
        let since = Duration::from_secs(debug.time_sec.into()) + Duration::from_micros(debug.time_usec.into());
        (hook.0)(&LogEvent {
            entry: LogEntry::from_lines(severity, lines.iter().map(String::as_str)),
            status: debug.cudnnStatus,
            time: SystemTime::UNIX_EPOCH + since,
            handle: debug.handle,
            stream: debug.stream.cast(),
            device: (!debug.handle.is_null()).then_some(debug.cudaDeviceId),
        });
    });
}

/// The callback for a [`Sink`]. cuDNN may call it in any function.
///
/// # Safety
/// `sink` is a `Sink`; the rest as for [`call_hook`].
unsafe extern "C" fn write_entry(
    severity: cudnnSeverity_t,
    sink: *mut c_void,
    _: *const cudnnDebug_t,
    message: *const c_char,
) {
    // SAFETY: `write_to` passed this pointer, and the sink is never freed.
    let Some(sink) = (unsafe { sink.cast::<Sink>().as_ref() }) else { return };
    contain_panic(|| {
        // SAFETY: the caller's obligation, passed on.
        let lines = unsafe { lines(message) };
        let lines = lines.iter().map(String::as_str);
        sink.write(entry::format(LogSeverity::from_number(severity), lines).as_bytes());
    });
}

/// Runs code that may panic, such as formatting or the program's closure. A panic must not reach C.
fn contain_panic(work: impl FnOnce()) {
    // Writing is a cancellation point, and the unwinding of a cancellation cannot be caught.
    let _guard = ThreadStateGuard::new();
    // The result is leaked, because the destructor of the panic's payload may panic too.
    std::mem::forget(catch_unwind(AssertUnwindSafe(work)));
}

/// Passes log entries of these severities to the crate `log`, with the target `cudnn`.
///
/// # Errors
/// See [`set_hook`].
#[cfg(feature = "log")]
#[cfg_attr(docsrs, doc(cfg(feature = "log")))]
pub fn to_log(severities: &[LogSeverity]) -> Result<(), Error> {
    set_hook(severities, |event| {
        let level = match event.entry.severity {
            LogSeverity::Fatal | LogSeverity::Error => log::Level::Error,
            LogSeverity::Warning => log::Level::Warn,
            LogSeverity::Info => log::Level::Info,
        };
        log::log!(target: "cudnn", level, "{}", event.entry);
    })
}

/// Passes log entries of these severities to the crate `tracing`, with the target `cudnn` and the fields `function`,
/// `status` and `thread`.
///
/// # Errors
/// See [`set_hook`].
#[cfg(feature = "tracing")]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub fn to_tracing(severities: &[LogSeverity]) -> Result<(), Error> {
    set_hook(severities, |event| {
        let LogEntry { function, thread, .. } = &event.entry;
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
            LogSeverity::Fatal | LogSeverity::Error => send!(tracing::Level::ERROR),
            LogSeverity::Warning => send!(tracing::Level::WARN),
            LogSeverity::Info => send!(tracing::Level::INFO),
        }
    })
}
