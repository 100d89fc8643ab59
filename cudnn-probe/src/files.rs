//! Compares the identity of files.

use std::path::Path;

#[cfg(feature = "serde")]
use cudnn_os::files::imagined_id;
use cudnn_os::files::{FileId, file_id};

use crate::facts::ask;

#[cfg(feature = "serde")]
crate::portable!(FileIdentity);

/// The identity of a file or directory, which is the same for all paths to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FileIdentity(FileId);

impl FileIdentity {
    /// Returns the identity of the file or directory at this path, following symbolic links, or `None` if it does not
    /// exist.
    #[must_use]
    pub fn of(path: &Path) -> Option<FileIdentity> {
        ask("file identity", path, || file_id(path).map(FileIdentity))
    }

    /// Returns an identity for a file that does not exist yet, which no other file has.
    #[cfg(feature = "serde")]
    pub(crate) fn imagined(path: &Path) -> Option<FileIdentity> {
        Some(FileIdentity(imagined_id(path)))
    }
}
