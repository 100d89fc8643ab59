//! Finds reasons and known messages of cuDNN in the text of any program, line by line.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use cudnn_cli::escape::Printable;
use cudnn_cli::output::outln;
use cudnn_cli::programs::doctor_command;
use cudnn_rules::cudnn_status::meaning;
use serde::Deserialize;
use serde_json::{Value, json};

/// The maximum number of distinct reasons. Beyond it, reasons that occurred once are dropped.
const MAX_REASONS: usize = 10_000;

/// The maximum length of a reason in characters. cuDNN's are shorter.
const MAX_REASON_LEN: usize = 500;

/// The maximum number of reasons listed in the text.
const MAX_LISTED: usize = 10;

#[derive(Deserialize)]
struct KnownMessage {
    /// Texts of such messages. `*` stands for any characters.
    texts: Vec<&'static str>,
    explanation: &'static str,
    /// The command of the doctor that shows more.
    command: Vec<&'static str>,
}

const SUCCESS: &str = "CUDNN_STATUS_SUCCESS";

/// The known messages. cuDNN's are from `strings` of the libraries of 9.28.1, the frameworks' from docs/statuses.md,
/// and SGLang's from `check_torch_2_9_1_cudnn_compatibility`.
static KNOWN: LazyLock<Vec<KnownMessage>> =
    LazyLock::new(|| serde_json::from_str(include_str!("known_messages.json")).unwrap_or_default());

#[derive(Default)]
pub(super) struct Messages {
    /// How often each status and reason was the innermost one of a failure.
    reasons: BTreeMap<(String, String), usize>,
    /// The number of reasons beyond [`MAX_REASONS`].
    pub(super) dropped: usize,
    /// The texts of known messages that were found, by the index of the message.
    known: BTreeMap<usize, &'static str>,
    /// The numbers of lines outside of log entries that report an error or a warning.
    pub(super) errors: usize,
    pub(super) warnings: usize,
    /// The numbers of innermost and other reasons expected in the next lines. Several processes may write at the same
    /// time.
    inner: usize,
    outer: usize,
    /// Whether the last line was empty.
    is_after_empty: bool,
}

impl Messages {
    /// Adds a line. The log contains the severity of entries, so their lines add neither errors nor warnings.
    pub(super) fn add(&mut self, line: &str, is_of_entry: bool) {
        let mark = mark(line);
        let is_empty = line.trim().is_empty();
        // A reason may contain empty lines, and its entry goes on after them.
        let goes_on = is_empty || mark.is_some() && !line.contains("! CuDNN (");
        if self.is_after_empty && !goes_on {
            (self.inner, self.outer) = (0, 0);
        }
        self.is_after_empty = is_empty;
        // The log lists the results of all calls.
        if mark == Some(b'i') {
            return;
        }
        // After a fallback to another library, a warning contains this status.
        let is_failure = !line.contains(SUCCESS);
        let mut kind = None;
        for (index, known) in KNOWN.iter().enumerate().filter(|_| is_failure) {
            if let Some(text) = known.texts.iter().find(|text| matches(line, text)) {
                self.known.entry(index).or_insert(text);
                kind = Some(ReasonLevel::Error);
            }
        }
        if let Some(count) = traceback(line) {
            self.inner += 1;
            self.outer = self.outer.saturating_add(count.saturating_sub(1));
        } else if let Some((of_reason, status, reason)) = reason(line) {
            kind = kind.or(self.add_reason(of_reason, status, reason));
        } else if mark.is_none()
            && let Some(status) = status_in(line)
        {
            self.count(status, "");
            kind = Some(ReasonLevel::Error);
        }
        match kind.filter(|_| !is_of_entry) {
            Some(ReasonLevel::Error) if mark != Some(b'w') && !is_python_warning(line) => self.errors += 1,
            Some(_) => self.warnings += 1,
            None => {}
        }
    }

    /// Adds a reason, and returns the kind if this is the innermost reason.
    fn add_reason(&mut self, kind: ReasonLevel, status: &str, reason: &str) -> Option<ReasonLevel> {
        if kind == ReasonLevel::Error && status == SUCCESS {
            // A check that passed, which cuDNN lists before the innermost reason.
            self.outer = self.outer.saturating_sub(1);
            return None;
        }
        if self.inner == 0 && self.outer > 0 {
            self.outer -= 1;
            return None;
        }
        if status == SUCCESS && self.outer > 0 {
            // A fallback that preceded the failure.
            self.outer -= 1;
            self.count(status, reason);
            return Some(kind);
        }
        self.inner = self.inner.saturating_sub(1);
        self.count(status, reason);
        Some(kind)
    }

    fn count(&mut self, status: &str, reason: &str) {
        if self.reasons.len() >= MAX_REASONS {
            let before = self.reasons.len();
            self.reasons.retain(|_, count| *count > 1);
            self.dropped += before - self.reasons.len();
        }
        let key = (status.to_owned(), reason.chars().take(MAX_REASON_LEN).collect());
        if self.reasons.len() < MAX_REASONS || self.reasons.contains_key(&key) {
            *self.reasons.entry(key).or_default() += 1;
        } else {
            self.dropped += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.known.is_empty()
    }

    /// Prints the most frequent reasons, then the explanations.
    pub(super) fn print(&self) {
        let reasons = self.by_count();
        if !reasons.is_empty() {
            outln!("\nThe innermost reasons of failures and warnings, the most frequent first:");
        }
        for (status, reason, count) in reasons.iter().take(MAX_LISTED) {
            let meaning = meaning(status).filter(|_| *status != SUCCESS);
            let meaning = meaning.map_or(String::new(), |meaning| format!(" ({meaning})"));
            let separator = if reason.is_empty() { "" } else { ": " };
            outln!("{count:8}  {}{separator}{}{meaning}", status.printable(), reason.printable());
        }
        let others = reasons.len().saturating_sub(MAX_LISTED);
        if others > 0 || self.dropped > 0 {
            let more_than = if self.dropped > 0 { "more than " } else { "" };
            outln!("          {more_than}{others} other reasons (`--json` lists them)");
        }
        for (known, text) in self.known() {
            outln!("\n\"{text}\": {}: {}", known.explanation, doctor_command(known.command.iter().copied()));
        }
    }

    pub(super) fn reasons(&self) -> Value {
        let reason = |(status, reason, count): &(&str, &str, usize)| json!({ "status": status, "reason": reason, "meaning": meaning(status), "count": count });
        self.by_count().iter().map(reason).collect()
    }

    pub(super) fn explanations(&self) -> Value {
        let value = |(known, text): (&KnownMessage, String)| {
            let command = doctor_command(known.command.iter().copied()).to_string();
            json!({ "message": text, "explanation": known.explanation, "command": command })
        };
        self.known().map(value).collect()
    }

    fn by_count(&self) -> Vec<(&str, &str, usize)> {
        let mut all: Vec<_> =
            self.reasons.iter().map(|((status, reason), count)| (status.as_str(), reason.as_str(), *count)).collect();
        all.sort_by_key(|(.., count)| Reverse(*count));
        all
    }

    /// Returns the known messages with the texts that were found.
    fn known(&self) -> impl Iterator<Item = (&KnownMessage, String)> {
        self.known.iter().filter_map(|(index, text)| Some((KNOWN.get(*index)?, text.replace('*', " ... "))))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReasonLevel {
    Error,
    Warning,
}

/// Returns whether the line contains the text, where `*` matches any characters.
fn matches(line: &str, text: &str) -> bool {
    let rest = text.split('*').try_fold(line, |rest, part| Some(rest.split_once(part)?.1));
    rest.is_some()
}

/// Returns the number in a line such as `Info: Traceback contains 2 message(s)`.
fn traceback(line: &str) -> Option<usize> {
    line.split_once("Traceback contains ")?.1.split(' ').next()?.parse().ok()
}

/// Returns whether Python printed this line as a warning: `FILE:LINE: UserWarning: TEXT`.
fn is_python_warning(line: &str) -> bool {
    let before = line.split_once("Warning: ").map_or("", |(before, _)| before);
    let place = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').strip_suffix(": ");
    place.and_then(|place| place.rsplit_once(':')).is_some_and(|(_, number)| number.parse::<u32>().is_ok())
}

/// Returns the parts of a line such as `Error: CUDNN_STATUS_BAD_PARAM; Reason: nullptr == descriptor`.
fn reason(line: &str) -> Option<(ReasonLevel, &str, &str)> {
    let (before, reason) = line.split_once("; Reason: ")?;
    let at = before.rfind("CUDNN_STATUS_")?;
    let (before, status) = before.split_at_checked(at)?;
    let is_name = status.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let kind = if before.trim_end().ends_with("Warning:") { ReasonLevel::Warning } else { ReasonLevel::Error };
    // Other programs print a log as one line, with escaped line ends.
    let reason = reason.split("\\n").next().unwrap_or_default().trim();
    is_name.then_some((kind, status, reason))
}

/// Returns the name of a known status, except success.
fn status_in(line: &str) -> Option<&str> {
    let at = line.find("CUDNN_STATUS_")?;
    let name = line.get(at..)?.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    (name != SUCCESS && meaning(name).is_some()).then_some(name)
}

/// Returns the lower-case severity letter of the line's mark (`E! ` or `e! ` in cuDNN's log), if there is one.
fn mark(line: &str) -> Option<u8> {
    let bytes = line.as_bytes();
    let marks = line.match_indices("! ").filter_map(|(at, _)| Some((at.checked_sub(1)?, at.checked_sub(2))));
    let is_alone = |before: Option<usize>| {
        before.and_then(|before| bytes.get(before)).is_none_or(|byte| !byte.is_ascii_alphanumeric())
    };
    let letters = marks.filter(|(_, before)| is_alone(*before)).filter_map(|(at, _)| bytes.get(at));
    letters.map(u8::to_ascii_lowercase).find(|letter| b"iwef".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(text: &str) -> Vec<(String, String, usize)> {
        let mut messages = Messages::default();
        text.lines().for_each(|line| messages.add(line, false));
        let owned = |(status, reason, count): (&str, &str, usize)| (status.into(), reason.into(), count);
        messages.by_count().into_iter().map(owned).collect()
    }

    fn expected(all: &[(&str, &str, usize)]) -> Vec<(String, String, usize)> {
        let name = |status: &str| format!("CUDNN_STATUS_{status}");
        all.iter().map(|(status, reason, count)| (name(status), (*reason).to_owned(), *count)).collect()
    }

    #[test]
    fn the_innermost_reason_of_each_traceback_counts() {
        let traceback = "e!     Info: Traceback contains 3 message(s)\n\
                         e!         Error: CUDNN_STATUS_SUCCESS; Reason: passed\n\
                         e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: inner\n\
                         e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: outer\n";
        assert_eq!(reasons(&traceback.repeat(3)), expected(&[("BAD_PARAM", "inner", 3)]));
        // Two processes at once.
        let twice: String = traceback.lines().map(|line| format!("[rank0]: {line}\n[rank1]: {line}\n")).collect();
        assert_eq!(reasons(&twice), expected(&[("BAD_PARAM", "inner", 2)]));
        // Only the reasons were pasted.
        let lines = "Error: CUDNN_STATUS_BAD_PARAM; Reason: a\nWarning: CUDNN_STATUS_SUCCESS; Reason: b\\nmore\n";
        assert_eq!(reasons(lines), expected(&[("BAD_PARAM", "a", 1), ("SUCCESS", "b", 1)]));
        assert_eq!(reasons("see CUDNN_STATUS_BAD_PARAM in foo; Reason: x"), expected(&[("BAD_PARAM", "", 1)]));
        assert_eq!(reasons("i!     status: type=cudnnStatus_t; val=CUDNN_STATUS_BAD_PARAM (2000);"), expected(&[]));
    }

    #[test]
    fn a_fallback_before_a_failure_does_not_hide_its_innermost_reason() {
        let entry = "E! CuDNN (v91900 56) function cudnnBackendFinalize() called:\n\
                     e!     Info: Traceback contains 3 message(s)\n\
                     e!         Warning: CUDNN_STATUS_SUCCESS; Reason: cannot load the engines.\n\
                     \n\
                     e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: inner\n\
                     e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: outer\n\n";
        let found = expected(&[("BAD_PARAM", "inner", 2), ("SUCCESS", "cannot load the engines.", 2)]);
        assert_eq!(reasons(&entry.repeat(2)), found);
        // The second entry was cut after its first reason.
        let (cut, _) = entry.split_once("e!         Error").unwrap();
        let found = expected(&[("SUCCESS", "cannot load the engines.", 3), ("BAD_PARAM", "inner", 2)]);
        assert_eq!(reasons(&format!("{entry}{cut}\n{entry}")), found);
    }

    #[test]
    fn a_warning_of_python_is_no_error() {
        let status = "Plan failed with a cudnnException: CUDNN_STATUS_NOT_SUPPORTED (Triggered internally at x.cpp:1.)";
        for (start, expected) in [
            ("/env/torch/nn/modules/conv.py:548: UserWarning: ", (0, 1)),
            ("[rank0]: <stdin>:1: _My2Warning: ", (0, 1)),
            ("RuntimeError: Warning: ", (1, 0)),
            ("x:y: UserWarning: ", (1, 0)),
        ] {
            let mut messages = Messages::default();
            messages.add(&format!("{start}{status}"), false);
            assert_eq!((messages.errors, messages.warnings), expected, "{start}");
        }
    }

    #[test]
    fn frequent_reasons_are_kept_if_there_are_too_many() {
        let mut messages = Messages::default();
        for number in 0..2 * MAX_REASONS {
            messages.add("Error: CUDNN_STATUS_BAD_PARAM; Reason: frequent", false);
            messages.add(&format!("Error: CUDNN_STATUS_BAD_PARAM; Reason: {number}"), false);
        }
        assert_eq!(messages.by_count()[0], ("CUDNN_STATUS_BAD_PARAM", "frequent", 2 * MAX_REASONS));
        assert_eq!(messages.by_count().len() + messages.dropped, 2 * MAX_REASONS + 1);
    }
}
