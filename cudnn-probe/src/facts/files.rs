//! Reads files and directories with functions that mirror `std::fs`.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cudnn_os::files::{Opened, open_regular};

use super::{Subject, ask, ask_for_enough};

/// The kind of a file or directory entry, like [`std::fs::FileType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl FileKind {
    fn of(kind: std::fs::FileType) -> FileKind {
        if kind.is_symlink() {
            FileKind::Link
        } else if kind.is_dir() {
            FileKind::Dir
        } else if kind.is_file() {
            FileKind::File
        } else {
            FileKind::Other
        }
    }

    /// Returns whether it is a directory.
    #[must_use]
    pub fn is_dir(self) -> bool {
        self == FileKind::Dir
    }

    /// Returns whether it is a regular file.
    #[must_use]
    pub fn is_file(self) -> bool {
        self == FileKind::File
    }

    /// Returns whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(self) -> bool {
        self == FileKind::Link
    }
}

/// The metadata of a file or directory, like [`std::fs::Metadata`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Metadata {
    kind: FileKind,
    len: u64,
}

impl Metadata {
    #[cfg(feature = "serde")]
    pub(super) fn new(kind: FileKind, len: u64) -> Metadata {
        Metadata { kind, len }
    }

    fn of(metadata: &std::fs::Metadata) -> Metadata {
        Metadata { kind: FileKind::of(metadata.file_type()), len: metadata.len() }
    }

    /// Returns the kind of the file.
    #[must_use]
    pub fn file_type(self) -> FileKind {
        self.kind
    }

    /// Returns whether it is a regular file.
    #[must_use]
    pub fn is_file(self) -> bool {
        self.kind.is_file()
    }

    /// Returns whether it is a directory.
    #[must_use]
    pub fn is_dir(self) -> bool {
        self.kind.is_dir()
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the name that `std::fs::Metadata` has")]
    pub fn len(self) -> u64 {
        self.len
    }
}

/// An entry of a directory, like [`std::fs::DirEntry`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DirEntry {
    #[cfg_attr(feature = "serde", serde(skip))]
    dir: PathBuf,
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    name: OsString,
    kind: Option<FileKind>,
}

impl DirEntry {
    #[cfg(feature = "serde")]
    pub(super) fn new(dir: &Path, name: OsString, kind: FileKind) -> DirEntry {
        DirEntry { dir: dir.to_owned(), name, kind: Some(kind) }
    }

    /// Returns the path of the entry.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Returns the name of the entry.
    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// Returns the kind of the entry without following symbolic links.
    ///
    /// # Errors
    /// Returns an error if the system does not provide the kind.
    pub fn file_type(&self) -> io::Result<FileKind> {
        self.kind.ok_or_else(|| io::Error::other("the kind of this file is unknown"))
    }
}

/// Lists a directory. At most 65,536 entries are listed.
///
/// # Errors
/// Returns an error if reading the directory fails.
pub fn read_dir(dir: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
    /// A directory may contain millions.
    const MAX_ENTRIES: usize = 1 << 16;
    let dir = dir.as_ref();
    let mut entries: Vec<DirEntry> = ask("entries", dir, || {
        let entries = std::fs::read_dir(dir)?.take(MAX_ENTRIES).flatten().map(|entry| {
            let kind = entry.file_type().ok().map(FileKind::of);
            DirEntry { dir: PathBuf::new(), name: entry.file_name(), kind }
        });
        io::Result::Ok(entries.collect())
    })?;
    entries.iter_mut().for_each(|entry| dir.clone_into(&mut entry.dir));
    Ok(entries)
}

/// Returns the directory entries that `wanted` accepts, sorted by name. Only these entries are recorded, because a
/// system directory may contain thousands of others. `what` describes the wanted names.
pub fn entries_named(dir: &Path, what: &str, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    ask("wanted entries", Subject::entries(dir, what, &wanted), || {
        let is_wanted = |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(&wanted);
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.filter(is_wanted).map(|entry| entry.path()).collect();
        paths.sort();
        paths
    })
}

/// Returns the metadata of a file or directory, following symbolic links.
///
/// # Errors
/// Returns an error if the path is missing or access is denied.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    ask("metadata", path, || std::fs::metadata(path).map(|metadata| Metadata::of(&metadata)))
}

/// Returns the metadata of a file or directory without following symbolic links.
///
/// # Errors
/// Returns an error if the path is missing or access is denied.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    ask("own metadata", path, || std::fs::symlink_metadata(path).map(|metadata| Metadata::of(&metadata)))
}

/// Returns the target of a symbolic link.
///
/// # Errors
/// Returns an error if the path is not a symbolic link.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    ask("link", path, || std::fs::read_link(path))
}

/// Resolves symbolic links and returns the path in a form that other programs accept.
///
/// # Errors
/// Returns an error if the path does not exist.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    ask("real path", path, || cudnn_os::files::canonicalize(path))
}

/// Reads a regular file with at most `limit` bytes.
///
/// # Errors
/// Returns an error if the file cannot be read, exceeds the limit, or is not a regular file (a pipe might never end).
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (bytes, len) = contents(path, limit, true)?;
    if len > limit {
        return Err(io::Error::other(format!("has {len} bytes, more than {limit}")));
    }
    Ok(bytes)
}

/// Reads at most `limit` bytes from the start of a regular file.
///
/// # Errors
/// Returns an error if the path cannot be read or is not a regular file.
pub fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    contents(path, limit, false).map(|(bytes, _)| bytes)
}

/// Returns at most `limit` bytes from the start of a regular file, and the length of the file. With `is_whole`, no
/// bytes are returned if the file is longer than the limit.
fn contents(path: &Path, limit: u64, is_whole: bool) -> io::Result<(Vec<u8>, u64)> {
    let read = || {
        let (file, len) = match open_regular(path)? {
            Opened::Regular(file, len) => (file, len),
            Opened::Other(kind) => return Err(io::Error::other(format!("is {kind}, not a file"))),
        };
        if is_whole && len > limit {
            return Ok(FileContents { bytes: Vec::new(), len });
        }
        // Reserve the buffer in advance, because a growing buffer would be filled in many small pieces.
        let mut bytes = Vec::with_capacity(usize::try_from(len.min(limit)).unwrap_or_default());
        // The file may grow in the meantime.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        let len = len.max(bytes.len() as u64);
        Ok(FileContents { bytes, len })
    };
    let is_enough = |known: &io::Result<FileContents>| {
        let has_wanted =
            |known: &FileContents| is_whole && known.len > limit || known.bytes.len() as u64 >= known.len.min(limit);
        known.as_ref().map_or(true, has_wanted)
    };
    let FileContents { mut bytes, len } = ask_for_enough("contents", path, is_enough, read)?;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok((bytes, len))
}

/// The result of [`contents`].
#[derive(Clone)]
pub(super) struct FileContents {
    pub(super) bytes: Vec<u8>,
    pub(super) len: u64,
}

#[cfg(feature = "serde")]
crate::portable!(Metadata, DirEntry);

/// The contents of a file, stored as a string if they are valid UTF-8, and otherwise as escaped bytes.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
enum ContentsText {
    Text { text: String, len: u64 },
    Bytes { escaped: String, len: u64 },
}

#[cfg(feature = "serde")]
impl super::Portable for FileContents {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let len = self.len;
        let text = match str::from_utf8(&self.bytes) {
            Ok(text) => ContentsText::Text { text: text.to_owned(), len },
            Err(_) => ContentsText::Bytes { escaped: self.bytes.escape_ascii().to_string(), len },
        };
        serde::Serialize::serialize(&text, serializer)
    }

    fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match <ContentsText as serde::Deserialize>::deserialize(deserializer)? {
            ContentsText::Text { text, len } => FileContents { bytes: text.into_bytes(), len },
            ContentsText::Bytes { escaped, len } => FileContents { bytes: super::portable::unescaped(&escaped), len },
        })
    }
}

/// Methods that ask whether a path exists, and what it is. They have other names than [`Path`]'s own methods, so that a
/// call shows which one it uses.
pub trait PathFacts {
    /// Returns whether the path exists, like [`Path::exists`].
    fn target_exists(&self) -> bool;
    /// Returns whether the path is a regular file, like [`Path::is_file`].
    fn leads_to_file(&self) -> bool;
    /// Returns whether the path is a directory, like [`Path::is_dir`].
    fn leads_to_dir(&self) -> bool;
    /// Returns whether the path exists, even as a dangling symbolic link.
    fn path_exists(&self) -> bool;
    /// Returns whether the path is a symbolic link, like [`Path::is_symlink`].
    fn is_link(&self) -> bool;
}

impl PathFacts for Path {
    fn target_exists(&self) -> bool {
        metadata(self).is_ok()
    }

    fn leads_to_file(&self) -> bool {
        metadata(self).is_ok_and(Metadata::is_file)
    }

    fn leads_to_dir(&self) -> bool {
        metadata(self).is_ok_and(Metadata::is_dir)
    }

    fn path_exists(&self) -> bool {
        symlink_metadata(self).is_ok()
    }

    fn is_link(&self) -> bool {
        symlink_metadata(self).is_ok_and(|metadata| metadata.kind.is_symlink())
    }
}
