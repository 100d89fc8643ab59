//! `log`: summarizes a cuDNN log or a program's output of any length, and explains the errors.

mod messages;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use cudnn_cli::escape::{Printable, without_colors};
use cudnn_cli::output::{CommandResult, Format, Outcome, count, outln, remark};
use cudnn_loader::logging::{LogEntry, LogSeverity, Reason, parse};
use cudnn_os::child::has_input;
use cudnn_os::files::{open_without_waiting, skip_hole};
use cudnn_rules::cudnn_status::meaning;
use serde_json::{Value, json};

use messages::Messages;

/// The first bytes of compressed files, and the programs that unpack them.
const COMPRESSED: [(&[u8], &str); 5] = [
    (b"\x1f\x8b", "zcat"),
    (b"BZh", "bzcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\x04\x22\x4d\x18", "lz4cat"),
];

/// The maximum line length in bytes. Longer lines are split.
const MAX_LINE_LEN: u64 = 64 << 10;

/// The maximum length of an entry in bytes.
const MAX_ENTRY_LEN: usize = 1 << 20;

/// The number of bytes examined to determine whether the file is text.
const MAX_HEAD_LEN: usize = 4 << 20;

/// The maximum number of stored errors, and of bytes in their text.
const MAX_ERRORS: usize = 1000;
const MAX_ERROR_BYTES: usize = 8 << 20;

/// The maximum number of bytes in the text of [`Summary::latest_calls`].
const MAX_CALL_BYTES: usize = 8 << 20;

/// The maximum number of distinct functions, processes, releases and threads.
const MAX_DISTINCT: usize = 10_000;

/// The maximum number of functions listed in the text.
const MAX_LISTED: usize = 10;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file that CUDNN_LOGDEST_DBG named, or the output of a program, such as a pasted error. `-` reads the standard
    /// input. cuDNN writes a log if CUDNN_LOGLEVEL_DBG is 1 (errors), 2 (warnings) or 3 (all calls). The loader's log
    /// next to it, FILE.loader, is included.
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, format: Format) -> CommandResult {
    let summary = Summary::read(&arguments.file)?;
    format.report(|| summary.value(), || summary.text());
    Ok(match (summary.error_count(), summary.warning_count()) {
        (0, 0) => Outcome::Fine,
        (0, _) => Outcome::Warnings,
        _ => Outcome::Errors,
    })
}

#[derive(Default)]
struct Summary {
    entry_count: usize,
    versions: BTreeSet<String>,
    processes: BTreeSet<u64>,
    /// The number of calls by function.
    calls: BTreeMap<String, usize>,
    /// The number of calls to functions beyond [`MAX_DISTINCT`].
    other_calls: usize,
    /// The numbers of entries by severity.
    warning_entries: usize,
    error_entries: usize,
    /// The first [`MAX_ERRORS`] of these errors.
    errors: Vec<LogEntry>,
    /// The call that failed first, with arguments, if the log contains calls.
    failed_call: Option<LogEntry>,
    /// The latest call by thread and function, recorded until the first error.
    latest_calls: BTreeMap<(Option<u64>, Option<String>), LogEntry>,
    /// The bytes in the text of `latest_calls` and of `errors`.
    call_bytes: usize,
    error_bytes: usize,
    messages: Messages,
}

impl Summary {
    /// Reads cuDNN's log, and the loader's log next to it.
    fn read(file: &Path) -> Result<Summary, String> {
        if file == Path::new("-") {
            if !has_input() {
                return Err("cannot read the standard input: it is closed".to_owned());
            }
            let mut summary = Summary::default();
            let read = for_each_entry(std::io::stdin().lock(), |part| summary.add_part(part));
            return read.map(|()| summary).map_err(|error| format!("cannot read the standard input: {error}"));
        }
        let mut loaders = file.as_os_str().to_owned();
        loaders.push(".loader");
        let mut summary = Summary::default();
        // The loader's entries come first, because cuDNN's errors can be consequences of a failure to load.
        let has_loaders = summary.add_file(Path::new(&loaders), true)?;
        summary.add_file(file, has_loaders)?;
        Ok(summary)
    }

    /// Adds the entries of a file. Returns `false` if the file is optional and does not exist.
    fn add_file(&mut self, file: &Path, is_optional: bool) -> Result<bool, String> {
        let mut read = || {
            let opened = open_without_waiting(file)?;
            if !opened.metadata()?.is_file() {
                return Err(std::io::Error::other("not a regular file; `-` reads the output of another program"));
            }
            // Log rotation may have truncated the file while cuDNN continued to write at the old position.
            skip_hole(&opened)?;
            for_each_entry(BufReader::new(opened), |part| self.add_part(part))
        };
        match read() {
            Ok(()) => Ok(true),
            Err(error) if is_optional => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    remark(format_args!("warning: cannot read {}: {error}", file.printable()));
                }
                Ok(false)
            }
            Err(error) => Err(format!("cannot read {}: {error}", file.printable())),
        }
    }

    fn add_part(&mut self, part: Part<'_>) {
        match part {
            Part::Line { text, is_of_entry } => self.messages.add(text, is_of_entry),
            Part::LogEntry(entry, len) => self.add(entry, len),
        }
    }

    fn error_count(&self) -> usize {
        self.error_entries + self.messages.errors
    }

    fn warning_count(&self) -> usize {
        self.warning_entries + self.messages.warnings
    }

    /// Adds an entry with this number of bytes.
    fn add(&mut self, entry: LogEntry, len: usize) {
        self.entry_count += 1;
        if self.versions.len() < MAX_DISTINCT {
            self.versions.extend(entry.version.map(|version| version.to_string()));
        }
        if self.processes.len() < MAX_DISTINCT {
            self.processes.extend(entry.process);
        }
        if entry.severity >= LogSeverity::Error {
            self.error_entries += 1;
            if self.errors.is_empty() {
                self.failed_call = self.latest_calls.remove(&(entry.thread, entry.function.clone()));
                self.latest_calls.clear();
            }
            if self.errors.is_empty() || self.errors.len() < MAX_ERRORS && self.error_bytes + len <= MAX_ERROR_BYTES {
                self.error_bytes += len;
                self.errors.push(entry);
            }
        } else if entry.severity == LogSeverity::Warning {
            self.warning_entries += 1;
        } else if is_call(&entry) {
            let function = entry.function.clone().unwrap_or_else(|| "?".into());
            if self.calls.len() < MAX_DISTINCT || self.calls.contains_key(&function) {
                *self.calls.entry(function).or_default() += 1;
            } else {
                self.other_calls += 1;
            }
            if self.errors.is_empty() {
                if self.latest_calls.len() >= MAX_DISTINCT || self.call_bytes + len > MAX_CALL_BYTES {
                    self.latest_calls.clear();
                    self.call_bytes = 0;
                }
                self.call_bytes += len;
                self.latest_calls.insert((entry.thread, entry.function.clone()), entry);
            }
        }
    }

    fn text(&self) {
        if self.entry_count == 0 {
            self.messages.print();
            let known = if self.messages.is_empty() {
                "The text has no log entries, and no known messages"
            } else {
                "\nThe text has no log entries"
            };
            outln!(
                "{known}. To have cuDNN write entries, start the program with CUDNN_LOGLEVEL_DBG=3 and CUDNN_LOGDEST_DBG=FILE in \
                 its environment."
            );
            return;
        }
        let versions: Vec<&str> = self.versions.iter().map(String::as_str).collect();
        let cudnn = match (versions.as_slice(), self.processes.len()) {
            ([], 0) => "cuDNN of an unknown release".to_owned(),
            // Entries from the loader, which could not find cuDNN.
            ([], _) => "no cuDNN".to_owned(),
            (versions, _) => format!("cuDNN {}", versions.join(" and ")),
        };
        // Only complete entries contain a process id.
        match self.processes.len() {
            0 => outln!("{cudnn}, an unknown process"),
            processes => outln!("{cudnn}, {}", count(processes, "process")),
        }
        let calls = self.calls.values().sum::<usize>() + self.other_calls;
        let more_than = if self.other_calls > 0 { "more than " } else { "" };
        let functions = count(self.calls.len(), "function");
        let (warnings, errors) = (count(self.warning_count(), "warning"), count(self.error_count(), "error"));
        outln!("{} of {more_than}{functions}, {warnings}, {errors}", count(calls, "call"));
        self.messages.print();
        if calls > 0 {
            outln!("");
        }
        let mut by_count: Vec<(&String, &usize)> = self.calls.iter().collect();
        by_count.sort_by_key(|(function, count)| (Reverse(*count), *function));
        let (listed, others) = by_count.split_at(by_count.len().min(MAX_LISTED));
        for (function, count) in listed {
            outln!("{count:8}  {}", function.printable());
        }
        let rest = calls - listed.iter().map(|(_, count)| **count).sum::<usize>();
        if rest > 0 {
            outln!("{rest:8}  {more_than}{} (`--json` lists them)", count(others.len(), "other function"));
        }
        self.errors.first().iter().for_each(|first| self.explain(first));
    }

    fn explain(&self, error: &LogEntry) {
        let mut shown = error.clone();
        shown.traceback.retain(|reason| reason.status != "CUDNN_STATUS_SUCCESS");
        let shown = if shown.traceback.is_empty() { error } else { &shown };
        outln!("\nThe first error: {}", shown.to_string().printable());
        if let (Some(time), Some(thread)) = (&error.time, error.thread) {
            outln!("  at {}, in thread {thread}", time.printable());
        }
        if error.process.is_none() {
            outln!(
                "  The entry is incomplete: the program ended while writing it, several processes wrote at the same time, or \
                 the log was truncated."
            );
        }
        for argument in self.failed_call.iter().flat_map(|call| &call.arguments) {
            let ty = argument.ty.as_ref().map_or(String::new(), |ty| format!(" ({})", ty.printable()));
            let indent = "  ".repeat(argument.depth.min(8) + 1);
            outln!("{indent}{}{ty}: {}", argument.name.printable(), argument.value.printable());
        }
        // The remaining notes and help from the loader's report.
        for argument in error.arguments.iter().filter(|argument| argument.name == "Info") {
            outln!("  {}", argument.value.printable());
        }
        let mut seen = BTreeSet::new();
        for Reason { status, .. } in shown.traceback.iter().filter(|reason| seen.insert(&reason.status)) {
            if let Some(meaning) = meaning(status) {
                outln!("  {}: {meaning}", status.printable());
            }
        }
        let (more, kept) = (self.error_entries - 1, self.errors.len());
        if more > 0 {
            let lists = if kept == self.error_entries { "all".to_owned() } else { format!("the first {kept}") };
            let are = if more == 1 { "is" } else { "are" };
            outln!("\n{} {are} not shown (`--json` lists {lists}).", count(more, "more error"));
        }
    }

    fn value(&self) -> Value {
        let reason = |Reason { status, reason, .. }: &Reason| json!({ "status": status, "reason": reason, "meaning": meaning(status) });
        let error = |LogEntry { function, time, thread, traceback, .. }: &LogEntry| {
            let reasons: Vec<Value> = traceback.iter().map(reason).collect();
            json!({ "function": function, "time": time, "thread": thread, "reasons": reasons })
        };
        let call = |(function, count): (&String, &usize)| json!({ "function": function, "count": count });
        json!({
            "versions": self.versions,
            "processes": self.processes.len(),
            "calls": self.calls.iter().map(call).collect::<Vec<_>>(),
            "other_calls": self.other_calls,
            "warnings": self.warning_count(),
            "error_count": self.error_count(),
            "errors": self.errors.iter().map(error).collect::<Vec<_>>(),
            "reasons": self.messages.reasons(),
            "other_reasons": self.messages.dropped,
            "messages": self.messages.explanations(),
        })
    }
}

/// A part of the text. The lines of an entry precede the entry.
enum Part<'a> {
    /// A line, and whether an entry contains it.
    Line { text: &'a str, is_of_entry: bool },
    /// An entry and the length of the text in bytes.
    LogEntry(LogEntry, usize),
}

/// Reads a log by lines and entries. Entries start with a letter and an exclamation mark, such as `E! CuDNN ..`.
fn for_each_entry(mut reader: impl BufRead, mut add: impl FnMut(Part<'_>)) -> std::io::Result<()> {
    /// The maximum number of entries that are read at the same time.
    const MAX_OPEN: usize = 64;
    // The entries with the prefixes of their first lines, which tell the processes of torchrun apart.
    let mut open: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
    let finish = |entry: &[u8], add: &mut dyn FnMut(Part<'_>)| {
        let entries = parse(&String::from_utf8_lossy(entry)).into_iter().filter(is_written_by_cudnn);
        entries.for_each(|one| add(Part::LogEntry(one, entry.len())));
    };
    let mut line = Vec::new();
    let (mut len, mut zeros) = (0, 0);
    let mut is_prefixed = false;
    // The marks of the entries so far. Several processes may write at the same time, and a reason may contain line ends.
    let mut marks = BTreeSet::new();
    let start = reader.fill_buf()?;
    if let Some((_, program)) = COMPRESSED.into_iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(std::io::Error::other(format!("it is compressed; `{program} FILE | cudnn-doctor log -` reads it")));
    }
    loop {
        line.clear();
        let is_end = reader.by_ref().take(MAX_LINE_LEN).read_until(b'\n', &mut line)? == 0;
        if len < MAX_HEAD_LEN {
            len += line.len();
            zeros += line.iter().filter(|byte| **byte == 0).count();
            if len >= MAX_HEAD_LEN && zeros > len / 2 + 1 {
                return Err(std::io::Error::other("the first megabytes are zeros, so this is not a cuDNN log"));
            }
        }
        // PowerShell writes UTF-16. cuDNN's text is ASCII.
        line.retain(|byte| ![0, 0xfe, 0xff].contains(byte));
        line = without_colors(line);
        let mut prefix = Vec::new();
        if let Some(start) = mark(&line, is_prefixed) {
            prefix = line.drain(..start).collect();
            is_prefixed |= start > 0;
        }
        let is_start = matches!(line.as_slice(), [b'A'..=b'Z', b'!', ..]);
        if is_end {
            open.iter().for_each(|(_, entry)| finish(entry, &mut add));
            return Ok(());
        }
        let current = open.iter().position(|(of_entry, _)| *of_entry == prefix);
        if is_start {
            let ended = current.or_else(|| (open.len() >= MAX_OPEN).then_some(0));
            if let Some((_, entry)) = ended.and_then(|at| open.remove(at)) {
                finish(&entry, &mut add);
            }
            open.push_back((prefix, Vec::new()));
        }
        // A prefix with the time differs in each line.
        let current = current.filter(|_| !is_start).or_else(|| open.len().checked_sub(1));
        let text = String::from_utf8_lossy(&line);
        let mark = text.get(..2).filter(|mark| mark.ends_with('!')).map(str::to_lowercase);
        if is_start && parse(&text).iter().any(is_written_by_cudnn) {
            marks.extend(mark.clone());
        }
        let is_of_entry = mark.is_some_and(|mark| marks.contains(&mark));
        add(Part::Line { text: &text, is_of_entry });
        let Some((at, (_, entry))) = current.and_then(|at| Some((at, open.get_mut(at)?))) else { continue };
        if entry.len() < MAX_ENTRY_LEN {
            entry.extend_from_slice(&line);
        }
        if is_last_of_entry(&line)
            && let Some((_, entry)) = open.remove(at)
        {
            finish(&entry, &mut add);
        }
    }
}

/// Returns whether a line ends an entry: `e! Process=1; Thread=1; GPU=NULL; Handle=NULL; StreamId=NULL.`
fn is_last_of_entry(line: &[u8]) -> bool {
    matches!(line, [b'a'..=b'z', b'!', rest @ ..] if rest.trim_ascii_start().starts_with(b"Process="))
}

/// Returns the position of cuDNN's mark (`E! `, `e! `) in a line. torchrun, kubectl and similar tools prepend a prefix,
/// which is recognized in the first line of an entry (`E! CuDNN (`).
fn mark(line: &[u8], is_prefixed: bool) -> Option<usize> {
    /// The maximum length of such a prefix.
    const MAX_PREFIX_LEN: usize = 200;
    const START: &[u8] = b"! CuDNN (";
    let is_letter = |at: usize| line.get(at).is_some_and(|letter| b"IWEFiwef".contains(letter));
    if is_letter(0) && line.get(1) == Some(&b'!') {
        return None;
    }
    let is_mark = |at: &usize| {
        let rest = line.get(at + 1..).unwrap_or_default();
        let before = line.get(at - 1).is_some_and(|byte| !byte.is_ascii_alphanumeric());
        before && is_letter(*at) && (rest.starts_with(START) || is_prefixed && rest.starts_with(b"! "))
    };
    (1..line.len().min(MAX_PREFIX_LEN)).find(is_mark)
}

/// Returns whether cuDNN wrote this entry, even if the last lines are missing. Other programs may print similar text.
fn is_written_by_cudnn(entry: &LogEntry) -> bool {
    entry.version.is_some() || entry.function.is_some() || entry.process.is_some()
}

/// Returns whether the entry records a cuDNN call, rather than a result or an operation of the loader.
fn is_call(entry: &LogEntry) -> bool {
    let is_result = entry.arguments.iter().any(|argument| argument.ty.as_deref() == Some("cudnnStatus_t"));
    let is_cudnn = entry.function.as_ref().is_some_and(|function| !function.contains("::"));
    entry.severity == LogSeverity::Info && is_cudnn && !is_result
}
