//! What a survey met and could not use, with the reason. Imports nothing.

use std::path::PathBuf;

/// A package, or a directory, that cannot be read as one should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason: "is a pipe", "has two versions: 2.8.0 and 2.9.1".
    pub reason: String,
}

impl Unreadable {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Unreadable { path: path.into(), reason: reason.into() }
    }
}
