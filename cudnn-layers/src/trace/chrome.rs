//! Chrome trace events, for Perfetto: <https://ui.perfetto.dev>. Each call is a complete event (`"ph":"X"`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudnn_layer_api::Host;

use super::call::FinishedCall;
use super::names;
use super::options::with_number;
use super::parameters::{Piece, Pieces, pieces};
use super::record::{INNER, INNER_STRING, OBJECT, Record, STRING, number_step, upper};
use crate::platform::append_error::AppendError;
use crate::platform::process;
use crate::platform::trace_file::{TraceFile, Writer};
use crate::report::expanded;
use crate::step::{Sink, Step};
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

/// The bytes that a record takes at most, beside what [`Pieces`] knows.
struct Room;

impl Room {
    /// Usual times, and the end.
    const USUAL: usize = 12 + 19 + 11;
    /// The longest times, and the end.
    const SHORT: usize = 27 + 27 + 11;
    /// That with the numbers of process and thread, a handle, a stream and their keys, a graph's key, and what a record keeps for its end.
    const LONG: usize = 256;
    /// The status of a call that succeeded, beyond that.
    const SUCCESS: usize = 32;
}

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
        let has_members = finished.call.handle.is_some()
            || finished.stream.is_some()
            || finished.label.is_some()
            || !finished.has_returned_well()
            || has_arguments && (finished.status.is_some() || !pieces.parameters.is_empty());
        if has_members {
            return self.write_long_call(finished, pieces, has_arguments);
        }
        let numbers = usize::from(self.process.advance + finished.thread.number.advance);
        // Nearly exact, so that nothing has to be given back.
        let times = if finished.duration < UPPER && finished.thread.upper == Some(finished.start / UPPER) {
            usize::from(finished.thread.time.advance) + Room::USUAL
        } else {
            Room::SHORT
        };
        self.append(pieces.room + numbers + times, |writer| {
            let mut record = self.head(writer, finished, pieces);
            record.step(COMPLETE);
            record.into_sink()
        });
    }

    /// What each call has. Only inlined functions get it, so that it stays in registers.
    #[inline(always)]
    fn head<S: Sink>(&self, sink: S, finished: &FinishedCall<'_, '_>, pieces: &Pieces) -> Record<S> {
        let mut record = Record::to(sink);
        record.extend(&pieces.start);
        record.step(self.process);
        record.step(finished.thread.number);
        if finished.thread.upper == Some(finished.start / UPPER) {
            record.step(finished.thread.time);
            record.lower(finished.start);
        } else {
            record.thousandths(",\"ts\":", finished.start, OBJECT);
        }
        record.duration(finished.duration);
        record
    }

    /// Writes a call with more than its times.
    #[inline(never)]
    fn write_long_call(&self, finished: &FinishedCall<'_, '_>, pieces: &Pieces, has_arguments: bool) {
        let room = match finished.status {
            Some(status) if status.0 == 0 => Room::LONG + Room::SUCCESS,
            _ => Room::LONG + names::LIMIT,
        };
        let room = room + finished.label.map_or(0, |label| 2 * label.len().min(TEXT_LIMIT));
        let room = room + if has_arguments { pieces.room_with_arguments } else { pieces.room };
        self.append(room, |writer| {
            let record = self.head(writer, finished, pieces);
            Self::put_members(record.into_sink(), finished, pieces, has_arguments)
        });
    }

    #[inline(always)]
    fn put_members<S: Sink>(sink: S, finished: &FinishedCall<'_, '_>, pieces: &Pieces, has_arguments: bool) -> S {
        let mut record = Record::to(sink);
        let mut members = Members::new(&mut record);
        if has_arguments {
            members.arguments(finished, pieces);
        } else if let Some(handle) = finished.call.handle {
            members.key(HANDLE);
            members.record.address(handle.addr() as u64, INNER_STRING);
        }
        if let Some(stream) = finished.stream {
            members.key(STREAM);
            members.record.address(stream as u64, INNER_STRING);
        }
        match finished.status {
            Some(status) if status.0 == 0 && !has_arguments => {}
            Some(status) if status.0 == 0 => {
                members.key(STATUS);
                members.record.extend(&SUCCESS);
            }
            Some(status) => {
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
        members.end();
        record.step(COMPLETE);
        record.into_sink()
    }

    /// Writes an event.
    pub(super) fn write_event(&self, event: &Event<'_>) {
        let room = Room::LONG + 2 * VALUE_LIMIT + event.members.len() * (TEXT_LIMIT + 2 * VALUE_LIMIT);
        self.append(room, |writer| {
            let mut record = Record::to(writer);
            record.step(Step::new(",{\"name\":\"", "\"}"));
            record.text(event.name, STRING, VALUE_LIMIT);
            record.text(event.detail, STRING, VALUE_LIMIT);
            // Ends the name.
            record.step(self.process);
            record.step(thread_step(event.thread));
            record.thousandths(",\"ts\":", event.start, OBJECT);
            if let Some(duration) = event.duration {
                record.duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
            }
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
            record.into_sink()
        });
    }

    /// Gives the track of this number a name.
    pub(super) fn name_track(&self, thread: u32, name: &str) {
        let room = Room::LONG + 3 * VALUE_LIMIT;
        self.append(room, |writer| {
            let mut record = Record::to(writer);
            record.step(Step::new(",{\"name\":\"", "\"}"));
            record.text("thread_name", STRING, VALUE_LIMIT);
            record.step(self.process);
            record.step(thread_step(thread));
            let mut members = Members::new(&mut record);
            members.text("name", name, VALUE_LIMIT);
            members.end();
            record.step(METADATA);
            record.into_sink()
        });
    }

    #[inline]
    fn append(&self, room: usize, write: impl FnOnce(Writer) -> Writer) {
        if self.is_broken.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.file.append(room, write) {
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

/// What records of a thread have in common.
#[derive(Clone, Copy)]
pub(super) struct ThreadPieces {
    /// Its number.
    number: Step,
    /// The begin of times, and the hundreds of seconds that it is of.
    time: Step,
    upper: Option<u64>,
}

/// The nanoseconds for which times begin alike.
const UPPER: u64 = 100_000_000_000;

impl ThreadPieces {
    pub(super) const NONE: Self = ThreadPieces { number: Step::new("", "}"), time: Step::new("", "}"), upper: None };

    pub(super) fn new(thread: u32) -> Self {
        ThreadPieces { number: thread_step(thread), ..ThreadPieces::NONE }
    }

    /// Prepares the begin of this time. Returns whether anything changed.
    #[inline]
    pub(super) fn prepare(&mut self, time: u64) -> bool {
        self.upper != Some(time / UPPER) && self.prepare_new(time)
    }

    #[cold]
    fn prepare_new(&mut self, time: u64) -> bool {
        let upper = upper(time);
        self.upper = upper.map(|_| time / UPPER);
        self.time = upper.unwrap_or(self.time);
        upper.is_some()
    }
}

/// The piece of a record with a thread's number.
fn thread_step(thread: u32) -> Step {
    number_step(",\"tid\":", thread.into()).unwrap_or(Step::new("", "}"))
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
/// `CUDNN_STATUS_SUCCESS`, as it is printed.
const SUCCESS: [Step; 2] = [Step::new("CUDNN_STATUS_", "\"}}"), Step::new("SUCCESS (0)", "\"}}")];

/// The object `args` of a record. It is left out if it is empty.
struct Members<'a, S> {
    record: &'a mut Record<S>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    AfterValue,
    InString,
}

impl<'a, S: Sink> Members<'a, S> {
    fn new(record: &'a mut Record<S>) -> Self {
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

    /// Adds the arguments of a call, which come before anything else.
    #[inline]
    fn arguments(&mut self, finished: &FinishedCall<'_, '_>, pieces: &Pieces) {
        let mut parameters = pieces.parameters.iter();
        finished.call.visit_arguments(|value| {
            let Some(piece) = parameters.next() else { return };
            // Each key closes the value before it, so nothing comes after one that was left out.
            if piece.room <= self.record.room() {
                self.value(piece, value);
            } else {
                parameters = [].iter();
            }
        });
    }

    /// Adds a text with a key that is not known at compile time.
    fn text(&mut self, key: &str, text: &str, limit: usize) {
        if key.len() + 16 <= self.record.room() {
            if self.state == State::Empty {
                self.record.step(Step::new(",\"args\":{", "}}"));
            }
            let separator = match self.state {
                State::Empty => "",
                State::InString => "\",",
                State::AfterValue => ",",
            };
            self.record.extend(&super::record::inner_key(separator, key, "\""));
            self.state = State::InString;
            self.record.text(text, INNER_STRING, limit);
        }
    }

    /// Adds an argument.
    #[inline]
    fn value(&mut self, piece: &Piece, value: Value<'_>) {
        self.record.extend(&piece.key);
        let closing = if piece.is_string { INNER_STRING } else { INNER };
        self.state = if piece.is_string { State::InString } else { State::AfterValue };
        match value {
            Value::Pointer(address) if piece.is_address => self.record.address_digits(address as u64, closing),
            Value::Pointer(address) if piece.is_string => self.record.address(address as u64, closing),
            Value::Signed(number) => {
                self.record.number(if number < 0 { "-" } else { "" }, number.unsigned_abs(), closing);
            }
            Value::Float(number) if piece.is_string => self.record.debug(&number, closing, VALUE_LIMIT),
            Value::Other(shown, bits) if piece.is_string => {
                names::put(self.record, std::ptr::from_ref(piece).addr(), bits, shown);
            }
            // The key of each type goes with its values, so the rest are unsigned numbers.
            other => self.record.number("", other.bits(), closing),
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
