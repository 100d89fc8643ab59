//! Defines findings. Text from outside is escaped here, once for all findings.

use std::path::PathBuf;

use super::observations::Observations;
use crate::escape::Printable;
use crate::remedy::Remedy;
use anstyle::AnsiColor;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Worth knowing.
    Note,
    /// Some programs fail, or results may be wrong.
    Warning,
    /// Programs fail.
    Error,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    pub(crate) fn colour(self) -> AnsiColor {
        match self {
            Severity::Note => AnsiColor::Cyan,
            Severity::Warning => AnsiColor::Yellow,
            Severity::Error => AnsiColor::Red,
        }
    }
}

pub(crate) use super::table::*;

/// A check: a function from the observations to findings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&Observations<'_>) -> Vec<Finding>,
}

/// A kind of finding: one section of docs/findings.md.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FindingKind {
    /// Never given to another kind.
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// A few words for tables.
    pub(crate) title: &'static str,
    /// The usual cause.
    pub(crate) cause: &'static str,
    /// The checks that can report it.
    pub(super) checks: &'static [Check],
}

/// Something that is wrong, or worth knowing.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// One line: what happened, and where.
    pub(crate) message: String,
    /// The evidence: paths, versions, rules.
    pub(crate) notes: Vec<String>,
    /// What to do about it.
    pub(crate) remedy: Option<Remedy>,
    /// The directory of the installation that it is about, if that is one which the loader or a framework uses.
    pub(crate) installation: Option<PathBuf>,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, message: impl AsRef<str>) -> Self {
        Finding { kind, message: message.as_ref().printable(), notes: Vec::new(), remedy: None, installation: None }
    }

    pub(crate) fn note(mut self, note: impl AsRef<str>) -> Self {
        self.notes.push(note.as_ref().printable());
        self
    }

    pub(crate) fn notes<S: AsRef<str>>(self, notes: impl IntoIterator<Item = S>) -> Self {
        notes.into_iter().fold(self, Finding::note)
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<Remedy>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Is it about the doctor, which could not do its work?
    pub(crate) fn is_of_doctor(&self) -> bool {
        self.kind.code == NOT_TESTED.code
    }
}
