//! Chrome trace events, for Perfetto: <https://ui.perfetto.dev>. Each call is a complete event (`"ph":"X"`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_layer_api::Host;

use super::call::FinishedCall;
use super::names;
use super::options::{expanded, with_number};
use super::parameters::{Piece, pieces};
use super::record::{INNER, INNER_STRING, OBJECT, Record, STRING};
use crate::platform::process;
use crate::platform::trace_file::{AppendError, TraceFile};
use crate::step::Step;
use crate::wrappers::Value;

/// The end of a complete event.
const COMPLETE: Step = Step::new(",\"ph\":\"X\"}\n", "");
/// The end of an instant.
const INSTANT: Step = Step::new(",\"ph\":\"i\"}\n", "");
/// The end of a record about the process or a thread.
const METADATA: Step = Step::new(",\"ph\":\"M\"}\n", "");

/// The longest text of one argument.
const VALUE_LIMIT: usize = 120;
/// The longest label of a graph, and the longest report of a failure.
const TEXT_LIMIT: usize = 1000;

/// The file.
pub(super) struct Chrome {
    file: TraceFile,
    /// The process's number, as the piece after a name.
    process: Step,
    /// It cannot be written to any more.
    is_broken: AtomicBool,
    /// A record was left out.
    has_gaps: AtomicBool,
    host: Host,
}

/// Something that took time, or happened, beside calls.
pub(super) struct Event<'a> {
    pub(super) name: &'a str,
    pub(super) detail: &'a str,
    pub(super) category: &'a str,
    pub(super) thread: u32,
    pub(super) start: u64,
    /// `None` for an instant.
    pub(super) duration: Option<Duration>,
    pub(super) members: &'a [(&'static str, &'a str)],
}

impl Chrome {
    /// Creates the file.
    pub(super) fn create(name: &std::path::Path, process_name: &str, host: Host) -> Result<Self, String> {
        let number = process::id();
        let is_clean = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
        let first = format!(
            "{{\"name\":\"process_name\",\"pid\":{number},\"tid\":{},\"args\":{{\"name\":\"{}\"}},\"ph\":\"M\"}}",
            process::thread_id(),
            process_name.chars().filter(is_clean).collect::<String>()
        );
        let name = expanded(name, number);
        let file = TraceFile::create(&name, &with_number(&name, number), &first)
            .map_err(|error| format!("{} cannot be written: {error}", name.display()))?;
        if file.path().file_name() != name.file_name() {
            host.info(&format!("writes {}, since another process writes {}", file.path().display(), name.display()));
        }
        let process = Step::new(&format!("\",\"pid\":{number}"), "}");
        Ok(Chrome { file, process, is_broken: AtomicBool::new(false), has_gaps: AtomicBool::new(false), host })
    }

    /// Prepares room in the background.
    pub(super) fn start_helper(&'static self) {
        self.file.start_helper();
    }

    /// Closes it in a child process, whose parent goes on with it.
    pub(super) fn leave_to_parent(&self) {
        self.file.leave_to_parent();
    }

    /// Writes a call.
    #[inline]
    pub(super) fn write_call(&self, finished: &FinishedCall<'_, '_>, has_arguments: bool) {
        let Some(pieces) = pieces(finished.call.function) else { return };
        let mut record = Record::new();
        record.extend(&pieces.start);
        self.place_and_time(&mut record, finished.thread, finished.start, Some(finished.duration));
        let mut members = Members::new(&mut record);
        if let Some(handle) = finished.call.handle {
            members.key(HANDLE);
            members.record.address(handle.addr() as u64, INNER_STRING);
        }
        if let Some(stream) = finished.stream {
            members.key(STREAM);
            members.record.address(stream as u64, INNER_STRING);
        }
        match finished.status {
            Some(status) if has_arguments || status.0 != 0 => {
                members.key(STATUS);
                names::put(members.record, 0, status.0.into(), &status);
            }
            None if finished.is_unwinding => {
                members.key(STATUS);
                members.record.clean(b"left by an exception", INNER_STRING);
            }
            _ => {}
        }
        if let Some(label) = finished.label {
            members.key(GRAPH);
            members.record.text(label, INNER_STRING, TEXT_LIMIT);
        }
        if has_arguments {
            let mut parameters = pieces.parameters.iter();
            finished.call.visit_arguments(|value| {
                if let Some(piece) = parameters.next().filter(|piece| !piece.is_handle) {
                    members.value(piece, value);
                }
            });
        }
        members.end();
        record.step(COMPLETE);
        self.append(&record);
    }

    /// Writes an event.
    pub(super) fn write_event(&self, event: &Event<'_>) {
        let mut record = Record::new();
        record.step(Step::new(",{\"name\":\"", "\"}"));
        record.text(event.name, STRING, VALUE_LIMIT);
        record.text(event.detail, STRING, VALUE_LIMIT);
        self.place_and_time(
            &mut record,
            thread_step(event.thread),
            event.start,
            event.duration.map(|duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        );
        record.step(Step::new(",\"cat\":\"", "\"}"));
        record.text(event.category, STRING, VALUE_LIMIT);
        record.step(Step::new("\"", "}"));
        if event.duration.is_none() {
            record.step(Step::new(",\"s\":\"t\"", "}"));
        }
        let mut members = Members::new(&mut record);
        for (key, text) in event.members {
            members.text(key, text, TEXT_LIMIT);
        }
        members.end();
        record.step(if event.duration.is_some() { COMPLETE } else { INSTANT });
        self.append(&record);
    }

    /// Gives the track of this number a name.
    pub(super) fn name_track(&self, thread: u32, name: &str) {
        let mut record = Record::new();
        record.step(Step::new(",{\"name\":\"", "\"}"));
        record.text("thread_name", STRING, VALUE_LIMIT);
        record.step(self.process);
        record.step(thread_step(thread));
        let mut members = Members::new(&mut record);
        members.text("name", name, VALUE_LIMIT);
        members.end();
        record.step(METADATA);
        self.append(&record);
    }

    /// Ends the name.
    #[inline(always)]
    fn place_and_time(&self, record: &mut Record, thread: Step, start: u64, duration: Option<u64>) {
        record.step(self.process);
        record.step(thread);
        record.thousandths(",\"ts\":", start, OBJECT);
        if let Some(duration) = duration {
            record.thousandths(",\"dur\":", duration, OBJECT);
        }
    }

    #[inline]
    fn append(&self, record: &Record) {
        if self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.file.append(record.steps(), record.bytes()) {
            self.report(&error);
        }
    }

    #[cold]
    fn report(&self, error: &AppendError) {
        let path = self.file.path().display();
        match error {
            AppendError::Broken(error) if !self.is_broken.swap(true, Ordering::Relaxed) => {
                self.host.error(&format!("{path} ends here, and the program goes on without it: {error}"));
            }
            AppendError::Busy if !self.has_gaps.swap(true, Ordering::Relaxed) => {
                self.host.warning(&format!("{path} lacks calls: another thread took too long to make room for them"));
            }
            _ => {}
        }
    }
}

/// The piece of a record with a thread's number.
pub(super) fn thread_step(thread: u32) -> Step {
    let mut record = Record::new();
    record.number(",\"tid\":", thread.into(), OBJECT);
    record.steps().first().copied().unwrap_or(Step::new("", "}"))
}

/// A key whose value is a string: as the first member, after a string that is still open, and after another value.
#[derive(Clone, Copy)]
struct Key {
    first: Step,
    after_string: Step,
    after_value: Step,
}

macro_rules! key {
    ($name:literal) => {
        Key {
            first: Step::new(concat!("\"", $name, "\":\""), "\"}}"),
            after_string: Step::new(concat!("\",\"", $name, "\":\""), "\"}}"),
            after_value: Step::new(concat!(",\"", $name, "\":\""), "\"}}"),
        }
    };
}
const HANDLE: Key = key!("handle");
const STREAM: Key = key!("stream");
const STATUS: Key = key!("status");
const GRAPH: Key = key!("graph");

/// The object `args` of a record. It is left out if it is empty.
struct Members<'a> {
    record: &'a mut Record,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    AfterValue,
    InString,
}

impl<'a> Members<'a> {
    fn new(record: &'a mut Record) -> Self {
        Members { record, state: State::Empty }
    }

    /// Adds a key, and opens the string that is its value.
    #[inline]
    fn key(&mut self, key: Key) {
        if self.state == State::Empty {
            self.record.step(Step::new(",\"args\":{", "}}"));
        }
        self.record.step(match self.state {
            State::Empty => key.first,
            State::InString => key.after_string,
            State::AfterValue => key.after_value,
        });
        self.state = State::InString;
    }

    /// Adds a key of these steps, which begin with a comma and end with the colon.
    fn long_key(&mut self, key: &[Step]) {
        match self.state {
            State::Empty => {
                self.record.step(Step::new(",\"args\":{", "}}"));
                if let [first, others @ ..] = key {
                    self.record.step(first.without_first());
                    self.record.extend(others);
                }
            }
            State::InString => {
                self.record.step(Step::new("\"", "}}"));
                self.record.extend(key);
            }
            State::AfterValue => self.record.extend(key),
        }
        self.state = State::AfterValue;
    }

    fn open_string(&mut self) {
        self.record.step(Step::new("\"", "\"}}"));
        self.state = State::InString;
    }

    /// Adds a text with a key that is not known at compile time.
    fn text(&mut self, key: &str, text: &str, limit: usize) {
        if self.record.has_room(key.len() + text.len().min(limit)) {
            self.long_key(&super::record::inner_key(key));
            self.open_string();
            self.record.text(text, INNER_STRING, limit);
        }
    }

    /// Adds an argument.
    fn value(&mut self, piece: &Piece, value: Value<'_>) {
        if !self.record.has_room(8 * piece.key.len() + VALUE_LIMIT) {
            return;
        }
        self.long_key(&piece.key);
        match value {
            Value::Unsigned(number) => self.record.number("", number, INNER),
            Value::Signed(number) => {
                self.record.number(if number < 0 { "-" } else { "" }, number.unsigned_abs(), INNER);
            }
            Value::Pointer(address) => {
                self.open_string();
                self.record.address(address as u64, INNER_STRING);
            }
            Value::Float(number) => {
                self.open_string();
                self.record.debug(&number, INNER_STRING, VALUE_LIMIT);
            }
            Value::Other(shown, bits) => {
                self.open_string();
                names::put(self.record, std::ptr::from_ref(piece).addr(), bits, shown);
            }
        }
    }

    fn end(self) {
        match self.state {
            State::Empty => {}
            State::AfterValue => self.record.step(Step::new("}", "}")),
            State::InString => self.record.step(Step::new("\"}", "}")),
        }
    }
}
