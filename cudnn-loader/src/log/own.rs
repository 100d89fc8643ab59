//! This crate's own entries: what it searched, refused, took, loaded and failed to load, in the form of cuDNN's. Knows nothing
//! of where they go.

use std::fmt::{Display, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cudnn_probe::{Candidate, Installation, RejectedCandidate};

use super::callback::{self, Message};
use super::destination::{env_config, local_time};
use super::entry::{Severity, marked};
use super::now;
use crate::error::{status_name, status_of};
use crate::{LoadError, SubLibrary, Version, cudnnDebug_t, cudnnStatus_t};

const SUCCESS: cudnnStatus_t = cudnnStatus_t::CUDNN_STATUS_SUCCESS;

/// The release that is in use, as `cudnnGetVersion` numbers it; 0 while there is none.
static VERSION: AtomicU32 = AtomicU32::new(0);

/// A search has come to an end: with an installation, or with a failure; and what was passed over on the way.
pub(crate) fn found(outcome: Result<&Installation, &LoadError>, considered: &[RejectedCandidate]) {
    note(Severity::Info, "cudnn_loader::search", SUCCESS, &|lines| {
        for RejectedCandidate { candidate, error: refusal } in considered {
            let Candidate { dir: folder, origin, .. } = candidate;
            argument(lines, "considered", "path", &format_args!("{folder:?} ({origin}): {refusal}"));
        }
    });
    // What was there, and could not be taken.
    for RejectedCandidate { candidate, error: refusal } in considered.iter().filter(|one| one.error.help().is_some()) {
        let status = status_of(refusal);
        note(Severity::Warning, "cudnn_loader::search", status, &|lines| {
            traceback(lines, "Warning", status, &format_args!("{:?} ({}) {refusal}", candidate.dir, candidate.origin));
        });
    }
    match outcome {
        Ok(installation) => note(Severity::Info, "cudnn_loader::pin", SUCCESS, &|lines| {
            argument(lines, "version", "version", &installation.version);
            argument(lines, "folder", "path", &format_args!("{:?}", installation.dir));
            argument(lines, "origin", "text", &installation.origin);
            if let Some(major) = installation.cuda_major {
                argument(lines, "cuda", "int", &major);
            }
        }),
        Err(error) => failed("cudnn_loader::search", error.status(), error),
    }
    VERSION.store(outcome.map_or(0, |installation| number(installation.version)), Ordering::Relaxed);
}

/// A library is about to be loaded.
pub(crate) fn loading(library: SubLibrary, path: &Path) {
    note(Severity::Info, "cudnn_loader::load", SUCCESS, &|lines| {
        argument(lines, "library", "text", &library);
        argument(lines, "path", "path", &format_args!("{path:?}"));
    });
}

/// A library has been loaded.
pub(crate) fn loaded(library: SubLibrary, path: &Path, took: Duration) {
    note(Severity::Info, "cudnn_loader::load", SUCCESS, &|lines| {
        argument(lines, "library", "text", &library);
        argument(lines, "path", "path", &format_args!("{path:?}"));
        argument(lines, "took", "us", &(took.as_micros() as u64));
        argument(lines, "status", "cudnnStatus_t", &"CUDNN_STATUS_SUCCESS (0)");
    });
}

/// A library could not be loaded.
pub(crate) fn not_loaded(error: &LoadError) {
    failed("cudnn_loader::load", error.status(), error);
}

/// A call came to nothing.
pub(crate) fn failed(function: &str, status: cudnnStatus_t, story: &dyn Display) {
    note(Severity::Error, function, status, &|lines| traceback(lines, "Error", status, story));
}

/// `    name: type=T; val=V;`
fn argument(lines: &mut String, name: &str, of: &str, value: &dyn Display) {
    // A name of a file may have anything in it; an entry is lines.
    let value = value.to_string().replace('\n', "\\n");
    let _ = write!(lines, "\n    {name}: type={of}; val={value};");
}

/// The first line of the story is the reason, the others say more.
fn traceback(lines: &mut String, kind: &str, status: cudnnStatus_t, story: &dyn Display) {
    let name = status_name(status).to_string_lossy();
    let story = story.to_string();
    let story = story.replace('\n', "\n        Info: ");
    let _ = write!(lines, "\n    Info: Traceback contains 1 message(s)\n        {kind}: {name}; Reason: {story}");
}

/// Writes an entry, or has it wait for the callback, if anybody wants entries of this severity.
fn note(severity: Severity, function: &str, status: cudnnStatus_t, say: &dyn Fn(&mut String)) {
    let callback = callback::current();
    let mask = callback.map_or_else(|| env_config().mask, |callback| callback.mask);
    if mask & severity.bit() == 0 {
        return;
    }
    let version = VERSION.load(Ordering::Relaxed);
    let time = now();
    // SAFETY: the call takes nothing and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let process = std::process::id();
    let mut lines = format!("CuDNN (v{version}) function {function}() called:");
    say(&mut lines);
    lines.push_str("\nTime: ");
    lines.push_str(&String::from_utf8_lossy(&local_time(c"%Y-%m-%dT%H:%M:%S", time.as_secs())));
    let seconds = env_config().start.elapsed().as_secs();
    let (minutes, hours, days) = (seconds / 60 % 60, seconds / 3600 % 24, seconds / 86400);
    let _ = write!(
        lines,
        ".{:06} ({days}d+{hours}h+{minutes}m+{}s since start)\n\
         Process={process}; Thread={thread}; GPU=NULL; Handle=NULL; StreamId=NULL.",
        time.subsec_micros(),
        seconds % 60
    );
    // What the system said may have anything in it.
    let mut printable = String::with_capacity(lines.len());
    for letter in lines.chars() {
        printable.push(if letter.is_control() && letter != '\n' { '?' } else { letter });
    }
    if callback.is_none_or(|callback| !callback.receives()) {
        return env_config().log.write(marked(severity, printable.split('\n')).as_bytes());
    }
    let mut text = printable.into_bytes();
    text.extend_from_slice(b"\n\n");
    for byte in text.iter_mut().filter(|byte| **byte == b'\n') {
        *byte = 0;
    }
    callback::queue(Message {
        severity: severity.number(),
        debug: cudnnDebug_t {
            cudnn_version: version,
            cudnnStatus: status,
            // Until 2106, as in cuDNN.
            time_sec: time.as_secs() as u32,
            time_usec: time.subsec_micros(),
            time_delta: 0,
            handle: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            pid: process.into(),
            tid: thread.unsigned_abs(),
            cudaDeviceId: -1,
            reserved: [0; 15],
        },
        text,
    });
}

/// As `cudnnGetVersion` numbers it: 92800.
fn number(version: Version) -> u32 {
    version.major * 10000 + version.minor * 100 + version.patch
}
