//! What a command says, to people and to programs. A reader that goes away, or a full disk, ends the command without a
//! panic.

use std::fmt::Arguments;
use std::io::Write;
use std::process::ExitCode;

use crate::check::Severity;

/// For whom a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document, whose `schema` changes when its form does.
    Json,
}

/// How a command ended, as its exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 0.
    Fine,
    /// 1.
    Warnings,
    /// 2.
    Problems,
}

impl Outcome {
    /// As bad as the worst finding.
    pub(crate) fn of(severities: impl Iterator<Item = Severity>) -> Self {
        match severities.max() {
            Some(Severity::Problem) => Outcome::Problems,
            Some(Severity::Warning) => Outcome::Warnings,
            Some(Severity::Note) | None => Outcome::Fine,
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => ExitCode::SUCCESS,
            Outcome::Warnings => ExitCode::from(1),
            Outcome::Problems => ExitCode::from(2),
        }
    }
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints a JSON document.
pub(crate) fn json(value: &serde_json::Value) {
    line(format_args!("{value:#}"));
}

pub(crate) fn line(text: Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        // Whoever closed the pipe knows; anything else is worth a word.
        if error.kind() != std::io::ErrorKind::BrokenPipe {
            let _ = writeln!(std::io::stderr(), "cannot write the output: {error}");
        }
        std::process::exit(3);
    }
}
