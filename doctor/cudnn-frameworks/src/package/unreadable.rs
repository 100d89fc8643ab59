//! Packages and directories that a survey could not read.

use std::path::PathBuf;

/// An unreadable package or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason: "is a pipe", "has two versions: 2.8.0 and 2.9.1".
    pub reason: String,
    /// The fix, if known.
    pub repair: Option<Repair>,
}

/// The fix for an unreadable package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Reinstall the package with this normalized name and, if known, this version.
    Reinstall(String, Option<String>),
    /// Set the directory aside, because it makes all pip commands fail, and install the package with this normalized
    /// name and, if known, this version.
    Replace(String, Option<String>),
    /// Remove the file or directory, which no longer belongs to a package.
    Remove,
    /// Give this user read permission.
    Allow,
}

impl Unreadable {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl Into<String>, repair: Option<Repair>) -> Self {
        Unreadable { path: path.into(), reason: reason.into(), repair }
    }
}
