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
    /// What mends it, if that is known.
    pub remedy: Option<Remedy>,
}

/// What mends a package that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Installing this package again: its normalised name, and its version if one is stated.
    Reinstall(String, Option<String>),
    /// Removing the directory, then installing this package again: its normalised name, and its version if one is stated.
    /// Until then pip can do nothing.
    Replace(String, Option<String>),
    /// Removing the file or directory, which belongs to no package any more.
    Remove,
    /// Allowing this user to read it.
    Allow,
}

impl Unreadable {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Unreadable { path: path.into(), reason: reason.into(), remedy: None }
    }

    pub(crate) fn with_remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }
}
