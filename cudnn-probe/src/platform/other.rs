//! Systems other than Unix: functions for missing features return "no" or "none".

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The path without symbolic links in it.
pub(crate) type FileId = PathBuf;

pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    std::fs::canonicalize(path).ok()
}

pub(crate) fn inode(_path: &Path) -> Option<u64> {
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

pub(crate) fn may_be_planted(_dir: &Path, _near: &Path) -> bool {
    false
}

pub(crate) fn is_executable(_path: &Path) -> bool {
    false
}

pub(super) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::open(path)
}

pub(crate) fn read_at(mut file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    file.read(into)
}
