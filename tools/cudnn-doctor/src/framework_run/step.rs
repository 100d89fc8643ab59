//! The steps of a run, as the child reports them.

use std::path::PathBuf;

use super::line::shortened;

/// The step of a Python that has sent nothing.
pub(super) const START: &str = "start of Python";

/// The step of a Python that fails after the last one.
pub(super) const END: &str = "end of the process";

/// The first step of each script.
pub(super) const IMPORT: &str = "import";

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Skipped,
    /// The framework computes on the CPU.
    Cpu,
    Failed,
}

impl Outcome {
    pub(super) fn parse(name: &str) -> Outcome {
        let known = [Outcome::Done, Outcome::Skipped, Outcome::Cpu];
        known.into_iter().find(|outcome| outcome.as_str() == name).unwrap_or(Outcome::Failed)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Skipped => "skipped",
            Outcome::Cpu => "cpu",
            Outcome::Failed => "failed",
        }
    }
}

/// A step of the child.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: String,
    /// `None` if the child ended before the step did.
    pub(super) outcome: Option<Outcome>,
    /// The result, or the error.
    pub(super) text: String,
    /// The errors that caused this one, the nearest first.
    pub(super) causes: Vec<String>,
    /// The length of cuDNN's log when it began.
    pub(super) log_start: u64,
    /// The file with the code that raised the error.
    pub(super) file: Option<PathBuf>,
}

impl Step {
    /// A step that begins.
    pub(super) fn new(name: String) -> Step {
        Step { name, outcome: None, text: String::new(), causes: Vec::new(), log_start: 0, file: None }
    }

    /// The name, to follow "the".
    pub(super) fn noun(&self) -> &str {
        match self.name.as_str() {
            "cudnn" => "check of cuDNN's version",
            "device" => "start of CUDA",
            "rnn" => "RNN",
            name => name,
        }
    }
}

/// The first line with text.
pub(super) fn first_line(text: &str) -> String {
    shortened(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}
