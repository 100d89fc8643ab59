//! Systems without cuDNN that are no Unix: functions for missing features return "no" or "none".

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::Os;

/// Files for Linux can be read anywhere.
pub(super) const OS: Os = Os::Linux;

/// The path without symbolic links in it.
pub(crate) type FileId = PathBuf;

pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    std::fs::canonicalize(path).ok()
}

pub(crate) fn inode(_path: &Path) -> Option<u64> {
    None
}

/// The file name of the Python that a person starts.
pub(crate) const PYTHON: &str = "python3";

/// A path below a root, both spelled as the system does. The path has `/` between its parts.
pub(crate) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path)
}

/// The absolute path without symbolic links in it.
///
/// # Errors
/// The system's.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

pub(crate) fn initial_env(_name: &str) -> Option<Option<OsString>> {
    None
}

pub(crate) fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Owned(text.to_string_lossy().into_owned().into_bytes())
}

pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

pub(crate) fn is_setid(_program: &Path) -> bool {
    false
}

pub(crate) fn is_like_tmp(_dir: &Path) -> bool {
    false
}

pub(crate) fn resolve_beside(path: &Path, _program_dir: &Path) -> Option<PathBuf> {
    Some(path.to_owned())
}

pub(crate) fn is_executable(_path: &Path) -> bool {
    false
}

/// On this system metadata shows what a device is.
pub(super) fn is_device(_path: &Path) -> bool {
    false
}

pub(super) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn read_at(mut file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    file.read(into)
}

/// The value of a variable as it is: a shell has removed its quotes.
pub(crate) fn without_quotes(value: OsString) -> OsString {
    value
}
