//! Finds reasons and known messages of cuDNN in the text of any program, line by line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cudnn_status::meaning;
use crate::escape::Printable;
use crate::output::outln;
use crate::shell::doctor_command;

/// The maximum number of distinct reasons.
const MAX_REASONS: usize = 10_000;

/// The maximum number of reasons listed in the text.
const MAX_LISTED: usize = 10;

/// A message that needs an explanation, because it does not name the cause.
#[derive(Debug)]
struct Known {
    /// Texts that such messages contain.
    texts: &'static [&'static str],
    explanation: &'static str,
    /// The command of the doctor that shows more.
    command: &'static [&'static str],
}

const CHECK: &[&str] = &["check"];
const EXPLAIN: &[&str] = &["run", "--explain", "--", "PROGRAM"];

/// The first two are in cuDNN's libraries (read with `strings` in 9.28.1), the next in PyTorch and cudnn-frontend, and the
/// last in SGLang (`check_torch_2_9_1_cudnn_compatibility`).
const KNOWN: [Known; 4] = [
    Known {
        texts: &["Cannot load symbol cublasLt"],
        explanation: "cuDNN opened no cuBLASLt for its CUDA major, or a file that is none: another one was loaded before, or comes \
                      first on the search path",
        command: CHECK,
    },
    Known {
        texts: &["cudaVersionMajor != nvrtcVersionMajor", "major version mismatch between cudart and nvrtc"],
        explanation: "cuDNN opened an NVRTC of another CUDA major than its own: another one was loaded before, or comes first on \
                      the search path",
        command: CHECK,
    },
    Known {
        texts: &[
            "No valid engine configs",
            "No valid execution plans",
            "No execution plans support the graph",
            "Unable to find an engine to execute",
            "unable to find an engine to execute",
        ],
        explanation: "every engine refused this operation. The program can show for each engine why",
        command: EXPLAIN,
    },
    Known {
        texts: &["CuDNN Compatibility Issue Detected"],
        explanation: "SGLang warns of slow 3-d convolutions in PyTorch 2.9.1 with cuDNN before 9.15. Its command \
                      installs cuDNN for CUDA 12: with a PyTorch for CUDA 13 (`+cu130`), install nvidia-cudnn-cu13 instead, or leave \
                      cuDNN as it is if the model has no 3-d convolutions",
        command: &["frameworks"],
    },
];

/// What was found in all lines.
#[derive(Default)]
pub(super) struct Messages {
    /// The number of times that each status and reason was the innermost of a failure.
    reasons: BTreeMap<(String, String), usize>,
    known: [usize; KNOWN.len()],
    /// Whether the previous line contained a reason, so that the next one is of a caller.
    is_inside: bool,
}

impl Messages {
    pub(super) fn add(&mut self, line: &str) {
        for (known, count) in KNOWN.iter().zip(&mut self.known) {
            *count += usize::from(known.texts.iter().any(|text| line.contains(text)));
        }
        let reason = reason(line);
        let is_caller = self.is_inside;
        self.is_inside = reason.is_some();
        let Some((status, reason)) = reason.filter(|(status, _)| *status != "CUDNN_STATUS_SUCCESS") else {
            // A check that passed, which cuDNN lists first.
            self.is_inside &= is_caller;
            return;
        };
        let key = (status.to_owned(), reason.to_owned());
        if !is_caller && (self.reasons.len() < MAX_REASONS || self.reasons.contains_key(&key)) {
            *self.reasons.entry(key).or_default() += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty() && self.known.iter().all(|count| *count == 0)
    }

    /// Prints the most frequent reasons, then the explanations.
    pub(super) fn print(&self) {
        let reasons = self.by_count();
        if !reasons.is_empty() {
            outln!("\nThe innermost reasons of failures and warnings, with their numbers:");
        }
        for (status, reason, count) in reasons.iter().take(MAX_LISTED) {
            let meaning = meaning(status).map_or(String::new(), |meaning| format!(" ({meaning})"));
            outln!("{count:8}  {}: {}{meaning}", status.printable(), reason.printable());
        }
        if reasons.len() > MAX_LISTED {
            outln!("          {} other reasons (`--json` lists them)", reasons.len() - MAX_LISTED);
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
        let value = |(known, text): (&Known, &str)| {
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

    /// Returns the known messages that were found, with a text by which to find them.
    fn known(&self) -> impl Iterator<Item = (&Known, &'static str)> {
        let found = KNOWN.iter().zip(self.known).filter(|(_, count)| *count > 0);
        found.filter_map(|(known, _)| Some((known, *known.texts.first()?)))
    }
}

/// Returns the status and the reason in a line such as `Error: CUDNN_STATUS_BAD_PARAM; Reason: nullptr == descriptor`.
fn reason(line: &str) -> Option<(&str, &str)> {
    let (before, reason) = line.split_once("; Reason: ")?;
    let start = before.rfind("CUDNN_STATUS_")?;
    Some((before.get(start..)?, reason.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_of_each_failure_counts() {
        let mut messages = Messages::default();
        let text = "RuntimeError: cuDNN error\n\
                    e!         Error: CUDNN_STATUS_SUCCESS; Reason: passed\n\
                    e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: inner\n\
                    e!         Error: CUDNN_STATUS_BAD_PARAM; Reason: outer\n\
                    text\n\
                    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: inner \n\
                    text\n\
                    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: inner\n";
        text.lines().for_each(|line| messages.add(line));
        let expected = [("CUDNN_STATUS_NOT_SUPPORTED", "inner", 2), ("CUDNN_STATUS_BAD_PARAM", "inner", 1)];
        assert_eq!(messages.by_count(), expected);
    }
}
