//! Defines the type of a finding. Untrusted text is escaped here for all findings.

use std::path::PathBuf;

use crate::escape::Printable;
use crate::remedy::Remedy;

pub(crate) use super::table::*;

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
