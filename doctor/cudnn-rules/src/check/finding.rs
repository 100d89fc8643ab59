//! Defines the type of a finding, and escapes untrusted text for all findings.

use std::path::PathBuf;

use cudnn_cli::escape::Printable;

use crate::remedy::Remedy;

pub use super::table::*;

/// A problem or a remark that is reported to the user.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The row of the table.
    pub kind: FindingKind,
    /// One line: what happened, and where.
    pub message: String,
    /// The evidence: paths, versions, rules.
    pub notes: Vec<String>,
    pub(crate) remedy: Option<Remedy>,
    /// The directory of the affected installation, if the loader or a framework uses it.
    pub(crate) installation: Option<PathBuf>,
    /// The name of a framework, or a file, if the installation does not identify the problem.
    pub(crate) subject: String,
}

impl Finding {
    pub(crate) fn new(kind: FindingKind, message: impl AsRef<str>) -> Self {
        let message = message.as_ref().printable();
        Finding { kind, message, notes: Vec::new(), remedy: None, installation: None, subject: String::new() }
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

    pub(crate) fn about(self, subject: impl Into<String>) -> Self {
        Finding { subject: subject.into(), ..self }
    }

    /// Returns whether both findings report the same problem. Details may differ, and so may the installation: after a
    /// step, programs may use another installation with the same problem and message.
    pub(crate) fn is_same(&self, other: &Finding) -> bool {
        let is_about_same = match (&self.installation, &other.installation) {
            (Some(dir), Some(of_other)) => dir == of_other && self.subject == other.subject,
            _ => !self.subject.is_empty() && self.subject == other.subject,
        };
        self.kind.code == other.kind.code && (self.message == other.message || is_about_same)
    }

    /// Returns the name of this code for the text of the other finding.
    pub(crate) fn name_for(&self, other: &Finding) -> String {
        let is_same = self.kind.code == other.kind.code;
        format!("{}{}", if is_same { "the other " } else { "" }, self.kind.code)
    }

    /// Returns whether the finding reports that the doctor itself failed.
    pub fn is_of_doctor(&self) -> bool {
        self.kind.code == NOT_TESTED.code
    }
}
