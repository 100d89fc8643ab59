//! Defines the type of a finding. Untrusted text is escaped here for all findings.

use std::path::PathBuf;

use super::observations::Observations;
use crate::escape::Printable;
use crate::remedy::Remedy;
use anstyle::AnsiColor;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// For information only.
    Note,
    /// Some programs fail, or may compute wrong results.
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

/// A named function that derives findings from the observations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) run: fn(&Observations<'_>) -> Vec<Finding>,
}

/// A kind of finding, which is one section of docs/findings.md.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FindingKind {
    /// Codes are never reused.
    pub(crate) code: &'static str,
    pub(crate) severity: Severity,
    /// The short description shown in tables.
    pub(crate) title: &'static str,
    /// The usual cause.
    pub(crate) cause: &'static str,
    /// The checks that can report it.
    pub(super) checks: &'static [Check],
}

/// A problem or a remark that is reported to the user.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// One line: what happened, and where.
    pub(crate) message: String,
    /// The evidence: paths, versions, rules.
    pub(crate) notes: Vec<String>,
    /// What to do about it.
    pub(crate) remedy: Option<Remedy>,
    /// The directory of the affected installation, if the loader or a framework uses it.
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

    /// Returns whether the finding reports that the doctor itself failed.
    pub(crate) fn is_of_doctor(&self) -> bool {
        self.kind.code == NOT_TESTED.code
    }
}
