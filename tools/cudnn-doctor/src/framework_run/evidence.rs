//! What a failed step left behind: its errors, its part of the child's stderr, and its part of cuDNN's log.

use cudnn_loader::logging::{Entry, Severity, parse};

use super::child::Log;
use super::line::shortened;
use super::step::{Outcome, Step};
use crate::subprocess::Ended;

/// The number of last lines of a crashed child that become notes.
const MAX_LAST_LINES: usize = 3;

/// The number of lines of stderr that are examined.
const MAX_LINES: usize = 100_000;

/// The character that a line of the child's stderr begins with if a step begins there.
const STEP_MARK: char = '\x1e';

/// The evidence of one step.
pub(super) struct Evidence {
    /// The errors of the step, the innermost first; each is one text of maybe several lines.
    pub(super) errors: Vec<String>,
    /// The lines of stderr that it wrote.
    pub(super) stderr: Vec<String>,
    /// The errors in its part of cuDNN's log.
    log: Vec<Entry>,
    /// The process ended during the step.
    pub(super) is_crash: bool,
    /// The lack of memory that explains its end.
    pub(super) memory: Option<String>,
}

impl Evidence {
    pub(super) fn of_step(step: &Step, ended: &Ended, is_crash: bool, log: &Log) -> Evidence {
        let errors = step.causes.iter().rev().chain([&step.text]).cloned().collect();
        let text = log.text_from(step.log_start);
        // The user may have sent the log to stderr.
        let entries = parse(&text).into_iter().chain(parse(&ended.stderr));
        let log = entries.filter(|entry| entry.severity >= Severity::Error && !entry.traceback.is_empty()).collect();
        // That there is no GPU is often printed before the first question for it.
        let is_on_cpu = step.outcome == Some(Outcome::Cpu);
        let stderr = if is_on_cpu { lines(&ended.stderr) } else { stderr_of_step(&ended.stderr, &step.name) };
        Evidence { errors, stderr, log, is_crash, memory: ended.lack_of_memory() }
    }

    /// The first error in the log. That an engine does not support something is normal: such an entry counts only if
    /// there is no other.
    pub(super) fn log_entry(&self) -> Option<String> {
        let is_serious = |entry: &&Entry| {
            entry.traceback.iter().any(|reason| !reason.status.starts_with("CUDNN_STATUS_NOT_SUPPORTED"))
        };
        self.log.iter().find(is_serious).or(self.log.first()).map(ToString::to_string)
    }

    /// The last lines of stderr.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let start = self.stderr.len().saturating_sub(MAX_LAST_LINES);
        self.stderr.iter().skip(start).map(|line| shortened(line)).collect()
    }
}

/// The lines of a step. If its beginning is lost in a flood of text: all lines that are left.
fn stderr_of_step(stderr: &str, name: &str) -> Vec<String> {
    let mark = format!("\n{STEP_MARK}{name}\n");
    let part = stderr.rsplit_once(&mark).map_or(stderr, |(_, part)| part);
    // The next step begins here.
    lines(part.split(STEP_MARK).next().unwrap_or_default())
}

/// The lines with text.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with(STEP_MARK)).map(without_colours);
    lines.filter(|line| !line.trim().is_empty() && !is_of_preload(line)).take(MAX_LINES).collect()
}

/// ld.so goes on without what LD_PRELOAD names and it cannot load.
fn is_of_preload(line: &str) -> bool {
    line.contains("ld.so: object '") && line.contains("cannot be preloaded")
}

/// The line without the sequences that colour it: `ESC [ 1 ; 31 m`.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = match after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m') {
            Some(after) => after,
            None => {
                plain.push_str("\x1b[");
                after
            }
        };
    }
    plain + rest
}

/// The name of the first status of cuDNN in a text.
pub(super) fn status_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_at_checked(text.find("CUDNN_STATUS_")?)?;
    rest.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_the_lines_between_its_beginning_and_the_next() {
        let stderr = "a\n\n\x1eimport\nb\n\n\x1edevice\n\x1b[1;31mc\x1b[m\n\x1b[2Jd\n\n\x1ernn\n\
                      ERROR: ld.so: object '/nope.so' from LD_PRELOAD cannot be preloaded: ignored.\ne\n";
        assert_eq!(stderr_of_step(stderr, "device"), ["c", "\x1b[2Jd"]);
        assert_eq!(stderr_of_step(stderr, "rnn"), ["e"]);
        assert_eq!(stderr_of_step("lost\n", "rnn"), ["lost"]);
    }
}
