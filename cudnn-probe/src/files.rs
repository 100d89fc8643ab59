//! Reading files of which nobody knows what they are: pipes, devices, gigabytes; and telling whether two paths lead to one
//! file.

use std::io::{self, Read};
use std::path::Path;

use crate::platform::{FileId, Opened, file_id, open_regular};

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// It cannot be read, is no regular file (a pipe would never end), or is longer.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, length) = match open_regular(path)? {
        Opened::Regular(file, length) => (file, length),
        Opened::Other(kind) => return Err(io::Error::other(format!("is {kind}, not a file"))),
    };
    // A buffer that grows would be filled in many small pieces.
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(limit)).unwrap_or_default());
    // It may grow meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if length > limit || bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("has {length} bytes, more than {limit}")));
    }
    Ok(bytes)
}

/// What identifies a file or directory behind any path to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity(FileId);

impl FileIdentity {
    /// Of the file or directory at this path, behind symbolic links; `None` if there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<FileIdentity> {
        file_id(path).map(FileIdentity)
    }
}
