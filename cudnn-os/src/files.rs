//! Files and paths.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

pub use crate::os::files::{
    FileId, bytes_of, canonicalize, file_id, inode, is_executable, is_like_tmp, is_setid, path_from_bytes, read_at,
    resolve_beside, set_mode, symlink,
};
use crate::os::files::{is_device, open_without_blocking};

#[cfg(feature = "processes")]
pub use crate::os::files::{lock_dir, skip_hole, sync_dir};

/// Returns a path below a root, both spelled as the system does. The path has `/` between its parts.
pub fn below(root: &Path, path: &str) -> PathBuf {
    let joined = root.join(path);
    if crate::IS_WINDOWS { joined.components().collect() } else { joined }
}

/// A file that [`open_regular`] found.
pub enum Opened {
    /// A regular file, and its length in bytes.
    Regular(File, u64),
    /// Something else: `a directory`.
    Other(&'static str),
}

/// Opens a regular file. It never blocks, even if the path is replaced by a pipe at the wrong moment.
///
/// # Errors
/// The system's.
pub fn open_regular(path: &Path) -> io::Result<Opened> {
    // On Windows even asking for a file's metadata opens it.
    if is_device(path) {
        return Ok(Opened::Other(DEVICE));
    }
    // Opening a device can have side effects, so check the path before opening it, too.
    if let Some(other) = other_kind(&std::fs::metadata(path)?) {
        return Ok(Opened::Other(other));
    }
    let file = open_without_blocking(path)?;
    let metadata = file.metadata()?;
    Ok(match other_kind(&metadata) {
        Some(other) => Opened::Other(other),
        None => Opened::Regular(file, metadata.len()),
    })
}

/// Opens a file for reading. Does not wait for the writer of a pipe, or for more of the kernel's log. Only Linux opens anything
/// but regular files.
///
/// # Errors
/// The system's.
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
