//! The directories that a search rejected, and its error if none was usable, for programs and build scripts that only
//! report it. Knows nothing of how directories are searched and checked.

use std::error::Error;
use std::fmt::{self, Write};
use std::path::PathBuf;

use crate::component::{Component, DEFAULT_CUDA_MAJOR};
use crate::error::ProbeError;
use crate::escape::{one_line, shown_path};
use crate::library::Library;
use crate::search::{Candidate, DIR_VARIABLE, Origin};

/// The sentence with which reports end that people read.
pub const RUN_DOCTOR: &str = "Run `cudnn-doctor check` to see what is wrong and the commands that fix it.";

/// A directory that was searched and is not usable. Displayed as one line with path, origin and reason.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RejectedCandidate {
    /// The directory, and why it was searched.
    pub candidate: Candidate,
    /// The reason why it is not usable.
    pub error: ProbeError,
}

impl RejectedCandidate {
    /// A directory, and why it is not usable.
    #[must_use]
    pub fn new(candidate: Candidate, error: ProbeError) -> Self {
        RejectedCandidate { candidate, error }
    }

    /// The subject of the error: the directory, or `libcudnn_graph.so.9` in it.
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

/// No directory has a usable cuDNN 9. `{}` prints one line; `{:#}`, `{:?}` and [`NoInstallation::report`] print what to do,
/// and each directory that was searched.
#[non_exhaustive]
pub struct NoInstallation {
    /// Each directory that was searched, in order, with the reason why it is not usable.
    pub rejected: Vec<RejectedCandidate>,
}

impl NoInstallation {
    pub(crate) fn new(rejected: Vec<RejectedCandidate>) -> Self {
        NoInstallation { rejected }
    }

    /// The directory that explains the failure best: the first that contains something, although nothing usable; or else
    /// the one that was named.
    #[must_use]
    pub fn blamed(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        Self::first_relevant(rejected).or_else(|| Self::requested(rejected))
    }

    /// The directory that the program or the user named, if the search was limited to it.
    #[must_use]
    pub fn requested(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        match rejected {
            [only] if matches!(only.candidate.origin, Origin::Explicit | Origin::Variable(_)) => Some(only),
            _ => None,
        }
    }

    fn first_relevant(rejected: &[RejectedCandidate]) -> Option<&RejectedCandidate> {
        let relevant = || rejected.iter().filter(|rejected| !rejected.error.is_absence());
        // One that cannot be read comes last: it may have nothing to do with cuDNN.
        let is_readable = |rejected: &&RejectedCandidate| !matches!(rejected.error, ProbeError::Unreadable { .. });
        relevant().find(is_readable).or_else(|| relevant().next())
    }

    /// The error as one sentence.
    #[must_use]
    pub fn reason(rejected: &[RejectedCandidate]) -> String {
        match Self::blamed(rejected) {
            Some(blamed) if Self::requested(rejected).is_some() => format!("no usable cuDNN 9 found: {blamed}"),
            Some(blamed) => format!("no usable cuDNN 9 found: {} {}", shown_path(&blamed.path()), blamed.error),
            None => "no usable cuDNN 9 found".into(),
        }
    }

    /// What to do if nothing was found, in one sentence. `None` if a cuDNN was found that cannot be used:
    /// `cudnn-doctor` knows what to do about that.
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

    /// The full report: several lines, the first of which stands on its own.
    #[must_use]
    pub fn report(&self) -> String {
        let help = Self::help(&self.rejected).map(|help| one_line(&help) + " ").unwrap_or_default();
        let mut text = format!("{self}\nhelp: {help}{RUN_DOCTOR}");
        if !self.rejected.is_empty() {
            text.push_str("\nnote: searched and rejected, in this order:");
        }
        for RejectedCandidate { candidate, error, .. } in &self.rejected {
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

/// The full report: what `main` prints when it returns the error.
impl fmt::Debug for NoInstallation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl Error for NoInstallation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Self::blamed(&self.rejected).map(|rejected| &rejected.error as _)
    }
}
