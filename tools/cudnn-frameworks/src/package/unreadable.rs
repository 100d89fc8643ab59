//! Describes what a survey could not read as it should.

use std::path::PathBuf;

/// A package, or a directory, that cannot be read as one should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason: "is a pipe", "has two versions: 2.8.0 and 2.9.1".
    pub reason: String,
    /// The fix, if that is known.
    pub remedy: Option<Remedy>,
}

/// The fix of a package that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Installing this package again: its normalized name, and its version if one is stated.
    Reinstall(String, Option<String>),
    /// Removing the directory, then installing this package again: its normalized name, and its version if one is stated.
    /// Until then pip can do nothing.
    Replace(String, Option<String>),
    /// Removing the file or directory, which belongs to no package any more.
    Remove,
    /// Allowing this user to read it.
    Allow,
}

impl Unreadable {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl Into<String>, remedy: Option<Remedy>) -> Self {
        Unreadable { path: path.into(), reason: reason.into(), remedy }
    }
}
