//! Writes Chrome trace events for Perfetto (<https://ui.perfetto.dev>). Calls are complete events (`"ph":"X"`).

use std::fmt::Write as _;
use std::io::{Error, Result, Write};

use arrayvec::ArrayString;
use cudnn_layer_api::Host;
use cudnn_os::{clock, threads};
use cudnn_sys::types::cudnnStatus_t;

use super::call::FinishedCall;
use super::file::{START, TraceFile};
use super::options::Options;
use super::parameters::pieces;
use super::record::{JsonRecord, Members};
use crate::report::own_name;
use crate::wrappers::Value;

const VALUE_LIMIT: usize = 120;
/// Maximum length of a graph label or a failure report.
const TEXT_LIMIT: usize = 1000;

pub(super) struct Chrome {
    file: TraceFile,
    process: u32,
    host: Host,
}

/// An event other than a call, such as loading a library.
pub(super) struct TraceEvent<'a> {
    pub(super) name: String,
    pub(super) category: &'a str,
    pub(super) thread: u32,
    /// The start time on the monotonic clock, in nanoseconds.
    pub(super) start: u64,
    /// The duration in nanoseconds, or `None` for an instant event.
    pub(super) duration: Option<u64>,
    pub(super) members: &'a [(&'static str, &'a str)],
}

impl Chrome {
    /// Creates the file, if the options name one.
    pub(super) fn create(
        options: &Options,
        is_child: bool,
        process_name: &str,
        host: Host,
    ) -> std::result::Result<Option<Self>, String> {
        let Some(name) = &options.chrome else { return Ok(None) };
        let process = std::process::id();
        let mut first = JsonRecord::new();
        first.end(START);
        // There is enough room.
        let _ = put_numbers(&mut first, process, threads::id());
        first.arguments(|members| members.add("name", |record| record.string(process_name, TEXT_LIMIT)));
        first.end(",\"ph\":\"M\"}");
        let name = own_name(name, is_child);
        let file = TraceFile::create(&name, options.limit(), first.bytes())
            .map_err(|error| format!("cannot write {}: {error}", name.display()))?;
        if file.path().file_name() != name.file_name() {
            host.info(&format!("{} is being written already; using {}", name.display(), file.path().display()));
        }
        Ok(Some(Chrome { file, process, host }))
    }

    /// Closes the file in a forked child, because the parent continues to write it.
    pub(super) fn leave_to_parent(&self) {
        self.file.leave_to_parent();
    }

    pub(super) fn finish(&self) {
        self.file.finish();
    }

    pub(super) fn write_call(&self, finished: &FinishedCall<'_, '_>, has_arguments: bool) {
        self.append(finished.call.function.name(), finished.thread, "X", |record| {
            put_times(record, finished.start, Some(finished.duration))?;
            record.arguments(|members| add_members(members, finished, has_arguments));
            Ok(())
        });
    }

    pub(super) fn write_event(&self, event: &TraceEvent<'_>) {
        let phase = if event.duration.is_some() { "X" } else { "i" };
        self.append(&event.name, event.thread, phase, |record| {
            put_times(record, event.start, event.duration)?;
            write!(record, ",\"cat\":\"{}\"{}", event.category, if phase == "i" { ",\"s\":\"t\"" } else { "" })?;
            record.arguments(|members| {
                for (key, text) in event.members {
                    members.add(key, |record| record.string(text, TEXT_LIMIT));
                }
            });
            Ok(())
        });
    }

    /// Builds a record and writes it. The record is never moved, because it is large.
    #[inline]
    fn append(&self, name: &str, thread: u32, phase: &str, add: impl FnOnce(&mut JsonRecord) -> Result<()>) {
        let mut record = JsonRecord::new();
        self.fill(&mut record, name, thread, phase, add);
        let last = |error: &Error| {
            let mut record = JsonRecord::new();
            self.fill(&mut record, &format!("the trace ends here: {error}"), thread, "i", |record| {
                put_times(record, clock::monotonic(), None)?;
                write!(record, ",\"s\":\"g\"")
            });
            record
        };
        if let Err(error) = self.file.append(record.bytes(), last) {
            self.report(&error);
        }
    }

    #[inline]
    fn fill(
        &self,
        record: &mut JsonRecord,
        name: &str,
        thread: u32,
        phase: &str,
        add: impl FnOnce(&mut JsonRecord) -> Result<()>,
    ) {
        record.end(",\n{\"name\":");
        // Only members of `args` can exceed the size, and they are then omitted.
        let _ = record
            .string(name, 2 * VALUE_LIMIT)
            .and_then(|()| put_numbers(record, self.process, thread))
            .and_then(|()| add(record));
        for piece in [",\"ph\":\"", phase, "\"}"] {
            record.end(piece);
        }
    }

    #[cold]
    fn report(&self, error: &Error) {
        let path = self.file.path().display();
        self.host.error(&format!("stopped writing {path}; the program continues without it: {error}"));
    }
}

#[inline]
fn add_members(members: &mut Members<'_>, finished: &FinishedCall<'_, '_>, has_arguments: bool) {
    if let Some(pieces) = pieces(finished.call.function).filter(|_| has_arguments) {
        let mut parameters = pieces.parameters.iter();
        finished.call.visit_arguments(|value| {
            let Some(piece) = parameters.next() else { return };
            members.add(if piece.is_handle { "handle" } else { &piece.text }, |record| put(record, value));
        });
    } else if let Some(handle) = finished.call.handle {
        members.add("handle", |record| put(record, Value::Pointer(handle.addr())));
    }
    if let Some(stream) = finished.stream {
        members.add("stream", |record| put(record, Value::Pointer(stream)));
    }
    match finished.status {
        Some(cudnnStatus_t::CUDNN_STATUS_SUCCESS) if has_arguments => {
            members.add("status", |record| write!(record, "\"CUDNN_STATUS_SUCCESS (0)\""));
        }
        Some(status) if has_arguments || finished.has_failed() => {
            members.add("status", |record| put(record, Value::Other(&status, 0)));
        }
        None if finished.is_unwinding => members.add("status", |record| write!(record, "\"left by an exception\"")),
        _ => {}
    }
    if let Some(label) = finished.label {
        members.add("graph", |record| record.string(label, TEXT_LIMIT));
    }
}

#[inline]
fn put_numbers(record: &mut JsonRecord, process: u32, thread: u32) -> Result<()> {
    write!(record, ",\"pid\":{process},\"tid\":{thread}")
}

/// Adds the times in microseconds.
#[inline]
fn put_times(record: &mut JsonRecord, start: u64, duration: Option<u64>) -> Result<()> {
    write!(record, ",\"ts\":{}.{:03}", start / 1000, start % 1000)?;
    match duration {
        Some(duration) => write!(record, ",\"dur\":{}.{:03}", duration / 1000, duration % 1000),
        None => Ok(()),
    }
}

#[inline]
fn put(record: &mut JsonRecord, value: Value<'_>) -> Result<()> {
    match value {
        Value::Signed(number) => write!(record, "{number}"),
        Value::Unsigned(number) => write!(record, "{number}"),
        // JSON has no representation of infinity.
        Value::Float(number) => write!(record, "\"{number:?}\""),
        Value::Pointer(address) => write!(record, "\"{address:#x}\""),
        Value::Other(shown, _) => {
            let mut text = ArrayString::<VALUE_LIMIT>::new();
            // Longer texts are truncated.
            let _ = write!(text, "{shown:?}");
            record.string(&text, VALUE_LIMIT)
        }
    }
}
