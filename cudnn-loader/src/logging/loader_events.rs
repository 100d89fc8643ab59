//! Writes the resolver's events as log entries in cuDNN's format.

use std::ffi::c_int;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use cudnn_layer_api::abi;
use cudnn_os::text_file::TextFile;
use cudnn_os::threads;
use cudnn_probe::{Candidate, Installation, RejectedCandidate, shown_path};
use cudnn_sys::types::{cudnnDebug_t, cudnnStatus_t};

use super::callback::{self, Message};
use super::entry::{LogSeverity, format};
use super::reasons;
use super::sink::{env_config, local_time};
use crate::error::{LoadError, status_for, status_name};
use crate::events::LoaderEvent;

const SUCCESS: cudnnStatus_t = cudnnStatus_t::CUDNN_STATUS_SUCCESS;
const SEARCH: &str = "cudnn_loader::search";
const SELECT: &str = "cudnn_loader::select";
const LOAD: &str = "cudnn_loader::load";
const LAYER: &str = "cudnn_loader::layer";

/// The number of the selected release, as returned by `cudnnGetVersion`; 0 before a release is selected.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// Logs an event. Installs the callback in the graph library as soon as it is opened.
pub(crate) fn record(event: &LoaderEvent<'_>) {
    match *event {
        LoaderEvent::SearchFinished { outcome, rejected } => search_finished(outcome, rejected),
        LoaderEvent::Loading { library, path } => {
            log(LogSeverity::Info, LOAD, SUCCESS, &|lines| {
                argument(lines, "library", "text", &library);
                argument(lines, "path", "path", &shown_path(path));
            });
        }
        LoaderEvent::GraphOpened { set_callback } => {
            reasons::graph_opened();
            let _ = callback::install_with(set_callback);
        }
        LoaderEvent::Loaded { library, path, duration } => {
            log(LogSeverity::Info, LOAD, SUCCESS, &|lines| {
                argument(lines, "library", "text", &library);
                argument(lines, "path", "path", &shown_path(path));
                argument(lines, "duration", "us", &(duration.as_micros() as u64));
                argument(lines, "status", "cudnnStatus_t", &"CUDNN_STATUS_SUCCESS (0)");
            });
        }
        LoaderEvent::LoadFailed { error } => failed(LOAD, error.status(), &error.report()),
        LoaderEvent::CallFailed { function, status, report } => failed(function, status, report),
        LoaderEvent::LayerMessage { layer, severity, text } => layer_message(layer, severity, text),
        LoaderEvent::FirstCall { .. } => {}
    }
}

fn search_finished(outcome: Result<&Installation, &LoadError>, rejected: &[RejectedCandidate]) {
    log(LogSeverity::Info, SEARCH, SUCCESS, &|lines| {
        for RejectedCandidate { candidate, error, .. } in rejected {
            let Candidate { dir, origin, .. } = candidate;
            argument(lines, "rejected", "path", &format_args!("{} ({origin}): {error}", shown_path(dir)));
        }
    });
    // A directory that contains an unusable cuDNN deserves a warning.
    for RejectedCandidate { candidate, error, .. } in rejected.iter().filter(|one| !one.error.is_absence()) {
        let status = status_for(error).into();
        log(LogSeverity::Warning, SEARCH, status, &|lines| {
            let reason = format!("{} ({}) {error}", shown_path(&candidate.dir), candidate.origin);
            traceback(lines, "Warning", status, &reason);
        });
    }
    match outcome {
        Ok(installation) => {
            log(LogSeverity::Info, SELECT, SUCCESS, &|lines| {
                argument(lines, "version", "version", &installation.version);
                argument(lines, "dir", "path", &shown_path(&installation.dir));
                argument(lines, "origin", "text", &installation.origin);
                if let Some(major) = installation.cuda_major {
                    argument(lines, "cuda", "int", &major);
                }
            });
        }
        Err(error) => failed(SEARCH, error.status(), &error.report()),
    }
    VERSION.store(outcome.map_or(0, |installation| installation.version.number()), Ordering::Relaxed);
}

/// An error means that a requested layer is inactive. It must be visible even if there is no log.
fn layer_message(layer: &str, severity: c_int, text: &str) {
    let severity = match severity {
        abi::ERROR => LogSeverity::Error,
        abi::WARNING => LogSeverity::Warning,
        _ => LogSeverity::Info,
    };
    let is_logged = log(severity, LAYER, SUCCESS, &|lines| {
        argument(lines, "layer", "text", &layer);
        argument(lines, "message", "text", &text);
    });
    if severity == LogSeverity::Error && !is_logged {
        let _ = TextFile::stderr().write(format!("cudnn_loader: layer {layer:?} {text}\n").as_bytes());
    }
}

fn failed(function: &str, status: cudnnStatus_t, report: &str) {
    log(LogSeverity::Error, function, status, &|lines| traceback(lines, "Error", status, report));
}

/// `    name: type=T; val=V;`
fn argument(lines: &mut String, name: &str, ty: &str, value: &dyn Display) {
    // File names may contain newlines, but entries consist of lines.
    let value = value.to_string().replace('\n', "\\n");
    let _ = write!(lines, "\n    {name}: type={ty}; val={value};");
}

/// The report's first line is the reason; the other lines add details.
fn traceback(lines: &mut String, kind: &str, status: cudnnStatus_t, report: &str) {
    let name = status_name(status).to_string_lossy();
    let report = report.replace('\n', "\n        Info: ");
    let _ = write!(lines, "\n    Info: Traceback contains 1 message(s)\n        {kind}: {name}; Reason: {report}");
}

/// Writes an entry or queues it for the callback, if the severity is enabled. Returns whether it did.
fn log(severity: LogSeverity, function: &str, status: cudnnStatus_t, body: &dyn Fn(&mut String)) -> bool {
    let callback = callback::current();
    let mask = callback.map_or_else(|| env_config().mask, |callback| callback.mask);
    if mask & severity.bit() == 0 {
        return false;
    }
    let version = VERSION.load(Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let thread = threads::id();
    let mut lines = format!("CuDNN (v{version}) function {function}() called:");
    body(&mut lines);
    footer(&mut lines, time, thread);
    // Messages from the system may contain arbitrary characters.
    let printable = |letter: char| if letter.is_control() && letter != '\n' { '?' } else { letter };
    let lines: String = lines.chars().map(printable).collect();
    if callback.is_none_or(|callback| !callback.has_function()) {
        return env_config().sink.write(format(severity, lines.split('\n')).as_bytes());
    }
    let mut text = lines.into_bytes();
    text.extend_from_slice(b"\n\n");
    for byte in text.iter_mut().filter(|byte| **byte == b'\n') {
        *byte = 0;
    }
    callback::queue(Message {
        severity: severity.number(),
        debug: cudnnDebug_t {
            cudnn_version: version,
            cudnnStatus: status,
            // Overflows in 2106, as in cuDNN.
            time_sec: time.as_secs() as u32,
            time_usec: time.subsec_micros(),
            time_delta: 0,
            handle: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            pid: std::process::id().into(),
            tid: thread.into(),
            cudaDeviceId: -1,
            reserved: [0; 15],
        },
        text,
    })
}

/// Appends the last two lines of an entry: the time and the location.
fn footer(lines: &mut String, time: Duration, thread: u32) {
    lines.push_str("\nTime: ");
    lines.push_str(&local_time("%Y-%m-%dT%H:%M:%S", time.as_secs()).to_string_lossy());
    let seconds = env_config().start.elapsed().as_secs();
    let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3600 % 24, seconds / 86400);
    let _ = write!(
        lines,
        ".{:06} ({days}d+{hours}h+{minutes}m+{}s since start)\n\
         Process={}; Thread={thread}; GPU=NULL; Handle=NULL; StreamId=NULL.",
        time.subsec_micros(),
        seconds % 60,
        std::process::id()
    );
}
