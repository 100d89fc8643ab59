//! Reports the directories that a search rejected. Programs and build scripts use it if they found no usable cuDNN.

use std::error::Error;
use std::fmt::{self, Write};
use std::path::PathBuf;

use crate::component::{Component, DEFAULT_CUDA_MAJOR};
use crate::error::ProbeError;
use crate::escape::{one_line, shown_path};
use crate::library::Library;
use crate::search::{Candidate, DIR_VARIABLE, Origin};

/// The sentence at the end of reports for people.
pub const RUN_DOCTOR: &str = "Run `cudnn-doctor check` to see what is wrong and the commands that fix it.";

/// A directory that was searched but is unusable. It is displayed as one line with path, origin and reason.
#[derive(Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RejectedCandidate {
    /// The directory and the reason for searching it.
    pub candidate: Candidate,
    /// The reason why the directory is unusable.
    pub error: ProbeError,
}

impl RejectedCandidate {
    /// Creates a rejected candidate from a directory and an error.
    #[must_use]
    pub fn new(candidate: Candidate, error: ProbeError) -> Self {
        RejectedCandidate { candidate, error }
    }

    /// Returns the path that the error refers to: the directory, or `libcudnn_graph.so.9` in it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        if self.error.is_about_dir() {
            self.candidate.dir.clone()
        } else {
            self.candidate.dir.join(Library::Graph.file_name())
        }
    }
}

impl fmt::Display for RejectedCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {}", shown_path(&self.path()), self.candidate.origin, self.error)
    }
}

/// The error of a search that found no usable cuDNN 9. `{}` prints one line. `{:#}`, `{:?}` and
/// [`NoInstallation::report`] also print help and all searched directories.
#[non_exhaustive]
pub struct NoInstallation {
    /// All searched directories in order, with the reason why they are unusable.
    pub rejected: Vec<RejectedCandidate>,
}

impl NoInstallation {
    pub(crate) fn new(rejected: Vec<RejectedCandidate>) -> Self {
        NoInstallation { rejected }
    }

    /// Returns the directory that best explains the failure. This is the first one that contains an unusable cuDNN, or
    /// otherwise the requested directory.
    #[must_use]
    pub fn blamed(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        Self::first_relevant(rejected).or_else(|| Self::requested(rejected))
    }

    /// Returns the directory that the program or user requested, if the search was limited to it.
    #[must_use]
    pub fn requested(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        match rejected {
            [only] if matches!(only.candidate.origin, Origin::Explicit | Origin::Variable(_)) => Some(only),
            _ => None,
        }
    }

    fn first_relevant(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        let relevant = || rejected.iter().filter(|rejected| !rejected.error.is_absence());
        // Prefer readable directories, because an unreadable one may be unrelated to cuDNN.
        let is_readable = |rejected: &&RejectedCandidate| !matches!(rejected.error, ProbeError::Unreadable { .. });
        relevant().find(is_readable).or_else(|| relevant().next())
    }

    /// Formats the error as one sentence.
    #[must_use]
    pub fn reason(rejected: &[RejectedCandidate]) -> String {
        match Self::blamed(rejected) {
            Some(blamed) if Self::requested(rejected).is_some() => format!("no usable cuDNN 9 found: {blamed}"),
            Some(blamed) => format!("no usable cuDNN 9 found: {} {}", shown_path(&blamed.path()), blamed.error),
            None => "no usable cuDNN 9 found".into(),
        }
    }

    /// Returns one sentence of help if cuDNN was not found at all. Returns `None` if an unusable cuDNN was found,
    /// because `cudnn-doctor` can give better help.
    #[must_use]
    pub fn help(rejected: &[RejectedCandidate]) -> Option<String> {
        let graph = Library::Graph.file_name();
        if Self::first_relevant(rejected).is_some() {
            return None;
        }
        Some(match Self::requested(rejected).map(|requested| &requested.candidate.origin) {
            Some(Origin::Variable(variable)) => format!(
                "Set {variable} to the absolute path of the directory that contains {graph}, or unset it to search the \
                 default directories."
            ),
            Some(_) => format!(
                "Pass the absolute path of the directory that contains {graph}, or no path to search the default \
                 directories."
            ),
            None => format!(
                "Install cuDNN (the wheel {}), or set {DIR_VARIABLE} to the directory that contains {graph}.",
                Component::Cudnn.wheel(DEFAULT_CUDA_MAJOR)
            ),
        })
    }

    /// Returns the full report. The first of several lines can also be used separately.
    #[must_use]
    pub fn report(&self) -> String {
        let help = Self::help(&self.rejected).map(|help| one_line(&help) + " ").unwrap_or_default();
        format!("{self}\nhelp: {help}{RUN_DOCTOR}{}", Self::note(&self.rejected))
    }

    /// Returns the last lines of a report, which list these directories. Each line starts with a line break.
    #[must_use]
    pub fn note(rejected: &[RejectedCandidate]) -> String {
        let heading = if rejected.is_empty() { "" } else { "\nnote: searched and rejected, in this order:" };
        let mut text = heading.to_owned();
        for RejectedCandidate { candidate, error, .. } in rejected {
            let reason = one_line(&error.to_string());
            let _ = write!(text, "\n  {} ({}) {reason}", shown_path(&candidate.dir), candidate.origin);
        }
        text
    }
}

impl fmt::Display for NoInstallation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&self.report());
        }
        f.write_str(&one_line(&Self::reason(&self.rejected)))
    }
}

/// Prints the full report, because `main` uses this format when it returns the error.
impl fmt::Debug for NoInstallation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

/// Has no source, because the text contains the reason.
impl Error for NoInstallation {}
