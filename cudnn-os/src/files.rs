//! Opens files and converts paths.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use crate::os::files::{
    FileId, bytes_of, canonicalize, file_id, imagined_id, inode, is_executable, is_like_tmp, is_setid,
    make_as_private_as, path_from_bytes, read_at, resolve_beside, set_mode, symlink,
};
use crate::os::files::{is_device, open_without_blocking, open_without_following};

#[cfg(feature = "native")]
pub use crate::os::files::create_temporary;
#[cfg(feature = "processes")]
pub use crate::os::files::{lock_dir, skip_hole, sync_dir};

/// Joins a `/`-separated path to a root, using the separator of the system.
pub fn below(root: &Path, path: &str) -> PathBuf {
    let joined = root.join(path);
    if crate::IS_WINDOWS { joined.components().collect() } else { joined }
}

/// The result of [`open_regular`].
pub enum Opened {
    /// A regular file with a length in bytes.
    Regular(File, u64),
    /// Another kind of file, as a description such as `a directory`.
    Other(&'static str),
}

/// Opens a regular file. The call never blocks, even if the path is replaced with a pipe while it runs.
pub fn open_regular(path: &Path) -> io::Result<Opened> {
    open_checked(path, open_without_blocking)
}

fn open_checked(path: &Path, open: fn(&Path) -> io::Result<File>) -> io::Result<Opened> {
    // On Windows, reading the metadata of a device already opens it.
    if is_device(path) {
        return Ok(Opened::Other(DEVICE));
    }
    // Opening a device can have side effects, so check the path first.
    if let Some(other) = other_kind(&std::fs::metadata(path)?) {
        return Ok(Opened::Other(other));
    }
    let file = open(path)?;
    let metadata = file.metadata()?;
    Ok(match other_kind(&metadata) {
        Some(other) => Opened::Other(other),
        None => Opened::Regular(file, metadata.len()),
    })
}

/// Like [`open_regular`], but refuses links. Only Linux detects a link that replaces the file at the same time.
pub fn open_regular_without_links(path: &Path) -> io::Result<Opened> {
    if path.symlink_metadata()?.is_symlink() {
        return Ok(Opened::Other("a link"));
    }
    open_checked(path, open_without_following)
}

/// Returns whether a tool may write to this path, because there is no file, an empty file, or a file whose first bytes show
/// that the tool writes such files. Links, directories and devices are never replaced.
pub fn is_replaceable(path: &Path, is_own: impl FnOnce(&[u8]) -> bool) -> io::Result<bool> {
    let mut start = Vec::new();
    match open_regular_without_links(path) {
        Ok(Opened::Regular(file, _)) => {
            file.take(256).read_to_end(&mut start)?;
            Ok(start.is_empty() || is_own(&start))
        }
        Ok(Opened::Other(_)) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Opens a file for reading without waiting for the writer of a pipe or for new messages in the kernel log. Systems
/// other than Linux open only regular files.
#[cfg(feature = "processes")]
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    if crate::IS_LINUX {
        return open_without_blocking(path);
    }
    match open_regular(path)? {
        Opened::Regular(file, _) => Ok(file),
        Opened::Other(_) => Err(io::Error::other("not a regular file")),
    }
}

const DEVICE: &str = "a pipe, a socket or a device";

fn other_kind(metadata: &std::fs::Metadata) -> Option<&'static str> {
    if metadata.is_dir() {
        Some("a directory")
    } else if metadata.is_file() {
        None
    } else {
        Some(DEVICE)
    }
}
