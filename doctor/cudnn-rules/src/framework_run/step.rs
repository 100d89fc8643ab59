//! Defines the steps of a run, as reported by the child.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Used when Python exits before it sends a message.
pub(super) const START: &str = "start of Python";

/// Used when Python fails after the last step.
pub(super) const END: &str = "end of the process";

/// The first step of every script.
pub(super) const IMPORT: &str = "import";

/// The number of characters to show from the beginning and the end of a long line.
const MAX_LINE_PART: usize = 300;

/// The outcome of a step, as the child names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepOutcome {
    Done,
    Skipped,
    /// The framework falls back to the CPU.
    Cpu,
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct RunStep {
    pub(super) name: String,
    /// `None` if the child exited during the step.
    pub(super) outcome: Option<StepOutcome>,
    pub(super) text: String,
    /// Earlier errors in the chain of exceptions, nearest first.
    pub(super) causes: Vec<String>,
    /// The length of cuDNN's log at the start of the step.
    pub(super) log_start: u64,
    /// The file with the code that raised the error.
    pub(super) file: Option<PathBuf>,
}

impl RunStep {
    /// Returns a noun phrase that fits after "the".
    pub(super) fn noun(&self) -> &str {
        match self.name.as_str() {
            "cudnn" => "check of cuDNN's version",
            "device" => "start of CUDA",
            "rnn" => "RNN",
            name => name,
        }
    }
}

pub(super) fn first_line(text: &str) -> String {
    shortened(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}

pub(super) fn shortened(line: &str) -> String {
    let count = line.chars().count();
    let Some(omitted @ 1..) = count.checked_sub(2 * MAX_LINE_PART) else { return line.to_owned() };
    let beginning: String = line.chars().take(MAX_LINE_PART).collect();
    let end: String = line.chars().skip(count - MAX_LINE_PART).collect();
    format!("{beginning} ... ({omitted} characters) ... {end}")
}
