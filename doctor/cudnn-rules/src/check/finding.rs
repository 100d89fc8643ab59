//! Defines the type of a finding. Untrusted text is escaped here for all findings.

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
    /// What to do about it.
    pub(crate) remedy: Option<Remedy>,
    /// The directory of the affected installation, if the loader or a framework uses it.
    pub(crate) installation: Option<PathBuf>,
    /// What the finding is about, if the installation does not say it: the name of a framework, or a file.
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

    /// Sets what the finding is about, to tell it from others about the same installation.
    pub(crate) fn about(self, subject: impl Into<String>) -> Self {
        Finding { subject: subject.into(), ..self }
    }

    /// Returns whether both are about the same problem of the same thing, although their details may differ. Two findings
    /// with the same message are, because programs may use another installation after a step, with the same problem.
    pub(crate) fn is_same(&self, other: &Finding) -> bool {
        let is_about_same = match (&self.installation, &other.installation) {
            (Some(dir), Some(of_other)) => dir == of_other && self.subject == other.subject,
            _ => !self.subject.is_empty() && self.subject == other.subject,
        };
        self.kind.code == other.kind.code && (self.message == other.message || is_about_same)
    }

    /// Returns the code as the text of another finding names it.
    pub(crate) fn name_for(&self, other: &Finding) -> String {
        let is_same = self.kind.code == other.kind.code;
        format!("{}{}", if is_same { "the other " } else { "" }, self.kind.code)
    }

    /// Returns whether the finding reports that the doctor itself failed.
    pub fn is_of_doctor(&self) -> bool {
        self.kind.code == NOT_TESTED.code
    }
}
