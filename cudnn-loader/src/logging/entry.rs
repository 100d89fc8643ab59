//! Parses and formats entries of cuDNN's log, in the form that all releases from 9.0.0 to 9.28.0 write.

use std::ffi::c_uint;
use std::fmt;

use cudnn_probe::Version;
use cudnn_sys::types::cudnnSeverity_t;

// Bits of the mask of `cudnnSetCallback`: CUDNN_SEV_ERROR_EN, _WARNING_EN and _INFO_EN. Fatal entries cannot be masked.
pub(super) const ERROR_BIT: c_uint = 1 << 1;
pub(super) const WARNING_BIT: c_uint = 1 << 2;
pub(super) const INFO_BIT: c_uint = 1 << 3;

/// The severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogSeverity {
    /// A call with arguments.
    Info,
    /// A call that works but is discouraged.
    Warning,
    /// A call that failed.
    Error,
    /// cuDNN is about to abort the process.
    Fatal,
}

/// An argument of a call, or a member of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Argument {
    /// The nesting depth; 0 for an argument itself.
    pub depth: usize,
    /// The name.
    pub name: String,
    /// The C type, if the entry contains it.
    pub ty: Option<String>,
    /// The value or its location (`location=host; addr=0x7ffe72832990`). Empty if members follow.
    pub value: String,
}

/// A reason for a failure, as reported by cuDNN.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// `Error` or `Warning`.
    pub kind: String,
    /// The status, for example `CUDNN_STATUS_BAD_PARAM_NULL_POINTER`.
    pub status: String,
    /// The condition, for example `nullptr == descriptor`.
    pub reason: String,
}

/// A log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// The severity.
    pub severity: LogSeverity,
    /// The cuDNN release that wrote the entry.
    pub version: Option<Version>,
    /// The function that was called.
    pub function: Option<String>,
    /// The arguments, and other values that the entry lists with them.
    pub arguments: Vec<Argument>,
    /// The reasons why the call failed, innermost first, as in cuDNN's log.
    pub traceback: Vec<Reason>,
    /// The local time, for example `2026-11-21T11:20:16.137087`.
    pub time: Option<String>,
    /// The process id.
    pub process: Option<u64>,
    /// The kernel's thread id.
    pub thread: Option<u64>,
    /// The GPU's number; `None` for calls without a handle.
    pub gpu: Option<u32>,
    /// The handle as text; `None` for calls without a handle.
    pub handle: Option<String>,
    /// The stream as text, for example `(nil) (defaultStream)`; `None` for calls without a handle.
    pub stream: Option<String>,
}

impl LogSeverity {
    /// Returns the severities that a `CUDNN_LOGLEVEL_DBG` enables: 0 for no entries, 1 for errors, 2 adds warnings, and
    /// 3 or more adds calls.
    #[must_use]
    pub fn up_to(level: u8) -> &'static [LogSeverity] {
        match level {
            0 => &[],
            1 => &[LogSeverity::Error],
            2 => &[LogSeverity::Error, LogSeverity::Warning],
            3.. => &[LogSeverity::Error, LogSeverity::Warning, LogSeverity::Info],
        }
    }

    /// The severities with the letters of their lines, in the order of cuDNN's numbers.
    const ALL: [(LogSeverity, char); 4] =
        [(LogSeverity::Fatal, 'F'), (LogSeverity::Error, 'E'), (LogSeverity::Warning, 'W'), (LogSeverity::Info, 'I')];

    /// Converts cuDNN's number to a severity.
    pub(super) fn from_number(severity: cudnnSeverity_t) -> LogSeverity {
        LogSeverity::ALL.get(severity.0 as usize).map_or(LogSeverity::Info, |(severity, _)| *severity)
    }

    /// Returns cuDNN's number.
    pub(super) fn number(self) -> cudnnSeverity_t {
        cudnnSeverity_t(LogSeverity::ALL.iter().take_while(|(other, _)| *other != self).count() as u32)
    }

    /// Returns the bit in a mask. Returns 0 for fatal entries, which cannot be masked.
    pub(super) fn bit(self) -> c_uint {
        match self {
            LogSeverity::Fatal => 0,
            other => 1 << other.number().0,
        }
    }

    /// Converts the letter at the start of a line to a severity, as in `I!` for the first line of an entry and `i!` for the
    /// following lines.
    fn from_letter(letter: u8) -> Option<LogSeverity> {
        let letter = char::from(letter.to_ascii_uppercase());
        LogSeverity::ALL.iter().find(|(_, other)| *other == letter).map(|(severity, _)| *severity)
    }
}

impl fmt::Display for LogSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogSeverity::Info => "info",
            LogSeverity::Warning => "warning",
            LogSeverity::Error => "error",
            LogSeverity::Fatal => "fatal",
        })
    }
}

/// Returns all entries in the text of a log file. Skips text that other programs wrote between them.
#[must_use]
pub fn parse(log: &str) -> Vec<LogEntry> {
    let mut found: Vec<LogEntry> = Vec::new();
    // The entry that the following lines belong to. The first line of an entry starts with an uppercase letter, and the
    // other lines with the lowercase letter.
    let mut open: Option<(u8, LogEntry)> = None;
    for line in log.lines() {
        match (mark_of(line), &mut open) {
            (Some((letter, text)), _) if letter.is_ascii_uppercase() => {
                found.extend(open.take().map(|(_, entry)| entry));
                open = LogSeverity::from_letter(letter)
                    .map(|severity| (letter.to_ascii_lowercase(), LogEntry::new(severity, text)));
            }
            (Some((letter, text)), Some((small, entry))) if letter == *small => entry.push_line(text),
            _ => {}
        }
    }
    found.extend(open.map(|(_, entry)| entry));
    found
}

/// Formats an entry as in a file: an empty line, the marked lines, and an empty line.
pub(super) fn format<'a>(severity: LogSeverity, lines: impl Iterator<Item = &'a str>) -> String {
    let letter = LogSeverity::ALL.iter().find(|(other, _)| *other == severity).map_or('I', |(_, letter)| *letter);
    let mut text = String::from("\n");
    for (number, line) in lines.enumerate() {
        text.push(if number == 0 { letter } else { letter.to_ascii_lowercase() });
        for part in ["! ", line, "\n"] {
            text.push_str(part);
        }
    }
    text.push('\n');
    text
}

/// Splits `I! text` into the letter and the text, including indentation.
fn mark_of(line: &str) -> Option<(u8, &str)> {
    let (letter, rest) = line.as_bytes().split_first()?;
    let text = line.get(2..)?;
    let is_mark = rest.first() == Some(&b'!') && LogSeverity::from_letter(*letter).is_some();
    is_mark.then(|| (*letter, text.strip_prefix(' ').unwrap_or(text)))
}

impl LogEntry {
    /// Parses an entry as a callback receives it: lines without marks.
    #[must_use]
    pub fn from_lines<'a>(severity: LogSeverity, mut lines: impl Iterator<Item = &'a str>) -> LogEntry {
        let mut entry = LogEntry::new(severity, lines.next().unwrap_or_default());
        lines.for_each(|line| entry.push_line(line));
        entry
    }

    /// Parses `CuDNN (v91900 56) function cudnnCreate() called:`.
    fn new(severity: LogSeverity, first: &str) -> LogEntry {
        let number = first.split_once("(v").and_then(|(_, rest)| rest.split([' ', ')']).next()?.parse::<u32>().ok());
        // The version is 0 in entries from before the selection.
        let number = number.filter(|number| *number != 0);
        let version = number.map(|number| Version::from_number(number as usize));
        let function = first.split_once("function ").and_then(|(_, rest)| rest.split("()").next()).map(str::to_owned);
        LogEntry {
            severity,
            version,
            function,
            arguments: Vec::new(),
            traceback: Vec::new(),
            time: None,
            process: None,
            thread: None,
            gpu: None,
            handle: None,
            stream: None,
        }
    }

    fn push_line(&mut self, line: &str) {
        let text = line.trim_start();
        let depth = (line.len() - text.len()).saturating_sub(4) / 4;
        if let Some(time) = text.strip_prefix("Time: ") {
            self.time = time.split(' ').next().map(str::to_owned);
        } else if text.starts_with("Process=") {
            self.push_location(text);
        } else if let Some((kind, status, reason)) = reason(text) {
            self.traceback.push(Reason { kind: kind.into(), status: status.into(), reason: reason.into() });
        } else if let Some((name, rest)) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))
            && !rest.starts_with("Traceback contains")
        {
            let (ty, value) = typed(rest.trim_end().trim_end_matches(';'));
            self.arguments.push(Argument { depth, name: name.into(), ty: ty.map(str::to_owned), value: value.into() });
        }
    }

    /// Parses `Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.`
    fn push_location(&mut self, text: &str) {
        for part in text.trim_end_matches('.').split("; ") {
            let Some((name, value)) = part.split_once('=') else { continue };
            let known = Some(value).filter(|value| *value != "NULL");
            match name {
                "Process" => self.process = value.parse().ok(),
                "Thread" => self.thread = value.parse().ok(),
                "GPU" => self.gpu = known.and_then(|value| value.parse().ok()),
                "Handle" => self.handle = known.map(str::to_owned),
                "StreamId" => self.stream = known.map(str::to_owned),
                _ => {}
            }
        }
    }
}

/// Parses the text after a name: `type=int; val=7`, or `type=cudnnHandle_t:` if members follow, or any other text.
fn typed(text: &str) -> (Option<&str>, &str) {
    let Some(typed) = text.strip_prefix("type=") else { return (None, text) };
    match typed.split_once("; ") {
        Some((ty, value)) => (Some(ty), value.strip_prefix("val=").unwrap_or(value)),
        None => (Some(typed.trim_end_matches(':')), ""),
    }
}

/// Parses `Error: CUDNN_STATUS_NOT_INITIALIZED; Reason: cudaGetDeviceCount(&count) != cudaSuccess`.
pub(super) fn reason(text: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = text.split_once(": ")?;
    let (status, reason) = rest.split_once("; Reason: ")?;
    status.starts_with("CUDNN_STATUS_").then_some((kind, status, reason))
}

/// Prints one line: the function with the failure reasons or the arguments.
impl fmt::Display for LogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.as_deref().unwrap_or("cuDNN"))?;
        for (index, Reason { status, reason, .. }) in self.traceback.iter().enumerate() {
            write!(f, "{} {status}: {reason}", if index == 0 { ":" } else { ";" })?;
        }
        if self.traceback.is_empty() && !self.arguments.is_empty() {
            let assignment = |argument: &Argument| format!("{}={}", argument.name, argument.value);
            let arguments: Vec<String> = self.arguments.iter().filter(|one| one.depth == 0).map(assignment).collect();
            write!(f, "({})", arguments.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = include_str!("../../logs/9.19.0.log");

    #[test]
    fn an_entry_is_parsed_completely() {
        let entries = parse(LOG);
        let error = entries.iter().find(|entry| entry.severity == LogSeverity::Error);
        assert!(
            error.is_some_and(|error| {
                error.function.as_deref() == Some("cudnnCreate")
                    && error.version == Some(Version::new(9, 19, 0))
                    && error.traceback
                        == [Reason {
                            kind: "Error".into(),
                            status: "CUDNN_STATUS_NOT_INITIALIZED".into(),
                            reason: "cudaGetDeviceCount(&count) != cudaSuccess".into(),
                        }]
                    && error.process.is_some()
                    && (error.gpu, &error.handle) == (None, &None)
            }),
            "{entries:#?}"
        );
        assert!(entries.iter().any(|entry| entry.arguments.iter().any(|argument| {
            argument.name == "max_size" && argument.ty.as_deref() == Some("size_t") && argument.value == "16384"
        })));
    }

    #[test]
    fn an_entry_of_a_call_on_a_gpu_has_its_handle_its_stream_and_nested_arguments() {
        for (log, version) in [
            (include_str!("../../logs/gpu-9.14.0.log"), Version::new(9, 14, 0)),
            (include_str!("../../logs/gpu-9.19.0.log"), Version::new(9, 19, 0)),
        ] {
            let entries = parse(log);
            assert_eq!(entries.len(), 6);
            let on_gpu: Vec<&LogEntry> = entries.iter().filter(|entry| entry.gpu.is_some()).collect();
            assert!(!on_gpu.is_empty() && entries.iter().all(|entry| entry.version == Some(version)));
            for entry in on_gpu {
                assert_eq!(entry.gpu, Some(0));
                assert!(entry.handle.as_ref().is_some_and(|handle| handle.starts_with("0x")));
                assert_eq!(entry.stream.as_deref(), Some("(nil) (defaultStream)"));
            }
            let has = |name: &str, depth: usize, ty: &str, value: &str| {
                let wanted = Argument { depth, name: name.into(), ty: Some(ty.into()), value: value.into() };
                assert!(entries.iter().any(|entry| entry.arguments.contains(&wanted)), "{wanted:?}: {entries:#?}");
            };
            has("handle", 0, "cudnnHandle_t", "");
            has("streamId", 1, "cudaStream_t", "streamId=(nil) (defaultStream)");
            has("deviceName", 2, "string", "\"NVIDIA H200\"");
            has("xDesc", 5, "CUDNN_BACKEND_TENSOR_DESCRIPTOR", "");
            has("dimA", 6, "int", "[8,64,28,28]");
            has("uid", 6, "int64_t", "1");
            has("activationDesc", 0, "cudnnActivationDescriptor_t", "");
            has("CUDNN_KNOB_TYPE_TILE_SIZE", 1, "int", "5");
            has("behaviorNotes", 0, "cudnnBackendDescriptor_t", "NULL_PTR");
        }
    }

    #[test]
    fn each_severity_has_its_number_its_bit_and_its_letters() {
        for (severity, number, bit, letter) in [
            (LogSeverity::Fatal, 0, 0, b'F'),
            (LogSeverity::Error, 1, 2, b'E'),
            (LogSeverity::Warning, 2, 4, b'W'),
            (LogSeverity::Info, 3, 8, b'I'),
        ] {
            assert_eq!(LogSeverity::from_number(cudnnSeverity_t(number)), severity);
            assert_eq!((severity.number().0, severity.bit()), (number, bit), "{severity}");
            for letter in [letter, letter.to_ascii_lowercase()] {
                assert_eq!(LogSeverity::from_letter(letter), Some(severity));
            }
            let text =
                format(severity, ["CuDNN (v90000) function cudnnX() called:", "    n: type=int; val=1;"].into_iter());
            let parsed: Vec<_> =
                parse(&text).into_iter().map(|entry| (entry.severity, entry.arguments.len())).collect();
            assert_eq!(parsed, [(severity, 1)], "{text}");
        }
        assert_eq!(LogSeverity::from_letter(b'X'), None);
    }

    #[test]
    fn other_text_is_skipped_and_truncated_entries_do_not_panic() {
        for length in 0..LOG.len().min(2000) {
            let _ = parse(LOG.get(..length).unwrap_or_default());
        }
        assert_eq!(parse("I am a line\nE\n!\n\nW!\ni! this line belongs to no entry\n").len(), 1);
        // A line that belongs to another thread's entry.
        let entries = parse("E! CuDNN (v90000) function cudnnX() called:\nw!     n: type=int; val=1;\n");
        assert!(matches!(&entries[..], [one] if one.arguments.is_empty()), "{entries:#?}");
    }

    #[test]
    fn the_lines_that_a_callback_receives_are_parsed_alike() {
        let lines =
            ["CuDNN (v90000) function cudnnX() called:", "    n: type=int; val=-1;", "        inner: type=int; val=2;"];
        let entry = LogEntry::from_lines(LogSeverity::Info, lines.into_iter());
        assert_eq!((entry.version, entry.arguments.len()), (Some(Version::new(9, 0, 0)), 2));
        assert_eq!(entry.arguments.iter().map(|one| one.depth).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(entry.to_string(), "cudnnX(n=-1)");
    }
}
