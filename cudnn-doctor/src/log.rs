//! `log FILE`: a log of cuDNN's, summed up, and its first error explained.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use cudnn_loader::logging::{Entry, Severity, parse};
use serde_json::{Value, json};

use crate::output::{Format, Outcome, Printable, document, fail, outln};

/// The most that is read of a log, in bytes.
const MAX_LOG_LEN: u64 = 1 << 30;

/// The options of `log`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file that CUDNN_LOGDEST_DBG named, written with CUDNN_LOGLEVEL_DBG at 1 (errors), 2 (warnings) or 3 (all calls).
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> Outcome {
    let read = || -> std::io::Result<String> {
        let metadata = std::fs::metadata(&arguments.file)?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&arguments.file)?.take(MAX_LOG_LEN).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let entries = match read() {
        Ok(log) => parse(&log),
        Err(error) => return fail(format, format!("{} cannot be read: {error}", arguments.file.printable())),
    };
    let summary = Summary::of(&entries);
    match format {
        Format::Json => document(&summary.value()),
        Format::Text => summary.text(),
    }
    match (summary.errors.is_empty(), summary.warnings) {
        (false, _) => Outcome::Problems,
        (true, 0) => Outcome::Fine,
        (true, _) => Outcome::Warnings,
    }
}

struct Summary<'a> {
    versions: Vec<String>,
    processes: usize,
    /// How often each function was called.
    calls: BTreeMap<&'a str, usize>,
    warnings: usize,
    errors: Vec<&'a Entry>,
    /// The call that the first error is of, with its arguments, where the log has calls.
    call: Option<&'a Entry>,
}

impl<'a> Summary<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let distinct = |of: &dyn Fn(&Entry) -> Option<String>| {
            let all: std::collections::BTreeSet<String> = entries.iter().filter_map(of).collect();
            all
        };
        let mut calls = BTreeMap::new();
        for entry in entries.iter().filter(|entry| is_call(entry)) {
            *calls.entry(entry.function.as_deref().unwrap_or("?")).or_insert(0) += 1;
        }
        let errors: Vec<&Entry> = entries.iter().filter(|entry| entry.severity >= Severity::Error).collect();
        let call = errors.first().and_then(|error| {
            let before = entries.iter().take_while(|entry| !std::ptr::eq(*entry, *error));
            before
                .filter(|entry| is_call(entry) && entry.function == error.function && entry.thread == error.thread)
                .last()
        });
        Summary {
            versions: distinct(&|entry| Some(entry.version?.to_string())).into_iter().collect(),
            processes: distinct(&|entry| Some(entry.process?.to_string())).len(),
            calls,
            warnings: entries.iter().filter(|entry| entry.severity == Severity::Warning).count(),
            errors,
            call,
        }
    }

    fn text(&self) {
        if self.processes == 0 {
            outln!(
                "No entry of cuDNN's is in this file. CUDNN_LOGLEVEL_DBG=3 CUDNN_LOGDEST_DBG=FILE has cuDNN write one."
            );
            return;
        }
        let versions = match self.versions.as_slice() {
            // The loader alone has written, since it found none.
            [] => "no cuDNN".to_owned(),
            versions => format!("cuDNN {}", versions.join(" and ")),
        };
        outln!("{versions}, {} process(es)", self.processes);
        let count: usize = self.calls.values().sum();
        outln!(
            "{count} calls of {} functions, {} warnings, {} errors",
            self.calls.len(),
            self.warnings,
            self.errors.len()
        );
        let mut most: Vec<(&&str, &usize)> = self.calls.iter().collect();
        most.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (function, count) in most.into_iter().take(10) {
            outln!("{count:8}  {}", function.printable());
        }
        let Some(first) = self.errors.first() else { return };
        outln!("\nThe first error: {}", first.to_string().printable());
        if let (Some(time), Some(thread)) = (&first.time, first.thread) {
            outln!("  at {}, in thread {thread}", time.printable());
        }
        if let Some(call) = self.call {
            for argument in &call.arguments {
                let of = argument.ty.as_ref().map_or(String::new(), |of| format!(" ({})", of.printable()));
                let indent = "  ".repeat(argument.depth + 1);
                outln!("{indent}{}{of}: {}", argument.name.printable(), argument.value.printable());
            }
        }
        // What the loader has to say beyond the reason, and what to do.
        for more in first.arguments.iter().filter(|argument| argument.name == "Info") {
            outln!("  {}", more.value.printable());
        }
        for reason in &first.traceback {
            if let Some(meaning) = meaning(&reason.status) {
                outln!("  {}: {meaning}", reason.status.printable());
            }
        }
    }

    fn value(&self) -> Value {
        json!({
            "schema": 1,
            "versions": self.versions,
            "processes": self.processes,
            "calls": self.calls.iter().map(|(function, count)| json!({ "function": function, "count": count })).collect::<Vec<_>>(),
            "warnings": self.warnings,
            "errors": self.errors.iter().map(|error| json!({
                "function": error.function,
                "time": error.time,
                "thread": error.thread,
                "reasons": error.traceback.iter().map(|reason| json!({
                    "status": reason.status,
                    "reason": reason.reason,
                    "meaning": meaning(&reason.status),
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

/// An entry of a call of cuDNN's, and not of what came of it, or of the loader's own doings.
fn is_call(entry: &Entry) -> bool {
    let is_result = entry.arguments.iter().any(|argument| argument.ty.as_deref() == Some("cudnnStatus_t"));
    let is_cudnns = entry.function.as_ref().is_some_and(|function| !function.contains("::"));
    entry.severity == Severity::Info && is_cudnns && !is_result
}

/// What a status means, by its category.
fn meaning(status: &str) -> Option<&'static str> {
    const MEANINGS: [(&str, &str); 7] = [
        (
            "CUDNN_STATUS_NOT_INITIALIZED",
            "cuDNN could not start: no driver, no GPU, or one that it cannot use. cudnn-doctor check says which.",
        ),
        (
            "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
            "libraries of two releases are mixed. cudnn-doctor check says which.",
        ),
        (
            "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
            "a library of cuDNN's, or one that it needs, cannot be loaded. cudnn-doctor check says which.",
        ),
        (
            "CUDNN_STATUS_BAD_PARAM",
            "an argument, or an attribute of a descriptor, is wrong; the reason names the check that failed.",
        ),
        ("CUDNN_STATUS_NOT_SUPPORTED", "no engine does this: another layout, type, algorithm or a newer cuDNN may."),
        (
            "CUDNN_STATUS_INTERNAL_ERROR",
            "a failure inside cuDNN, often for want of memory or of a library that an engine opens.",
        ),
        (
            "CUDNN_STATUS_EXECUTION_FAILED",
            "the GPU failed while it computed: an earlier kernel's bad memory access shows here too.",
        ),
    ];
    MEANINGS.iter().find(|(prefix, _)| status.starts_with(prefix)).map(|(_, meaning)| *meaning)
}
