//! Paths and rights of files as far as std knows them, on Windows and on other systems.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Returns the text in UTF-8; what is not Unicode becomes a replacement character.
pub fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Owned(text.to_string_lossy().into_owned().into_bytes())
}

/// Returns the path that this UTF-8 spells.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns `false`: Windows raises a program's rights by asking, not by a bit of its file.
pub fn is_setid(_program: &Path) -> bool {
    false
}

/// Returns `false`: access lists decide, and std does not read them.
pub fn is_like_tmp(_dir: &Path) -> bool {
    false
}

/// Returns the path as it is: std cannot tell who may write to it.
pub fn resolve_beside(path: &Path, _program_dir: &Path) -> Option<PathBuf> {
    Some(path.to_owned())
}
