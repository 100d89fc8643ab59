//! Opens and replaces files that other users cannot have modified, for caches that processes share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::SystemTime;

use crate::files::read_at;
use crate::os::files::open_without_blocking;
pub use crate::os::trusted_files::{Directory, create_new, make_readable};
use crate::os::trusted_files::{check_owner, write_all};

/// The property that makes a file or directory untrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untrusted {
    /// The path is not a directory.
    NotADirectory,
    /// The path is not a regular file.
    NotAFile,
    /// Another user owns the file or directory.
    NotOwned {
        /// The user ID of the owner.
        owner: u32,
        /// The effective user ID of the process.
        user: u32,
    },
    /// Other users can write to the file or directory.
    WritableByOthers {
        /// The permission bits.
        mode: u32,
    },
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untrusted::NotADirectory => f.write_str("is not a directory"),
            Untrusted::NotAFile => f.write_str("is not a regular file"),
            Untrusted::NotOwned { owner, user } => {
                write!(f, "belongs to user {owner}, but this process runs as user {user}")
            }
            Untrusted::WritableByOthers { mode } => write!(f, "is writable by other users (mode {mode:04o})"),
        }
    }
}

/// The reason why a file or directory is rejected.
#[derive(Debug)]
pub enum TrustError {
    /// Other users may have written it, or it is another kind of file.
    Untrusted(Untrusted),
    /// The operating system returned an error.
    System(Error),
}

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustError::Untrusted(untrusted) => write!(f, "it {untrusted}"),
            TrustError::System(error) => error.fmt(f),
        }
    }
}

impl From<Untrusted> for TrustError {
    fn from(untrusted: Untrusted) -> Self {
        TrustError::Untrusted(untrusted)
    }
}

impl From<Error> for TrustError {
    fn from(error: Error) -> Self {
        TrustError::System(error)
    }
}

/// The size and modification time of a file.
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// The time when the file was written or marked as used.
    pub modified: Option<SystemTime>,
}

/// An open file that passed the ownership checks.
pub struct File(std::fs::File);

impl File {
    pub(crate) fn new(file: std::fs::File) -> Self {
        File(file)
    }

    /// Accepts a regular file that only this user can have written, or root if `may_be_of_root` is set.
    pub(crate) fn trusted(file: std::fs::File, may_be_of_root: bool) -> std::result::Result<Self, TrustError> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Untrusted::NotAFile.into());
        }
        check_owner(&metadata, may_be_of_root)?;
        Ok(File(file))
    }

    /// Returns the size and modification time.
    pub fn stat(&self) -> Result<FileStat> {
        let metadata = self.0.metadata()?;
        Ok(FileStat { size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Reads bytes at an offset. Returns `None` if the file is too short.
    ///
    /// # Errors
    /// Returns an error if reading fails or memory is insufficient.
    pub fn read(&self, at: u64, length: u64) -> Result<Option<Vec<u8>>> {
        let length = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        bytes.resize(length, 0);
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match read_at(&self.0, rest, at + filled as u64) {
                Ok(0) => return Ok(None),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(bytes))
    }

    /// Appends bytes. An exceeded file size limit is an error and not a signal.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        write_all(&self.0, bytes)
    }

    /// Marks the file as used at this time.
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.0.set_modified(time)
    }
}

impl Directory {
    /// Writes a file that only this user can access, in place of a file or link with this name. The data goes to a
    /// temporary file with a name such as `tmp-71-0123456789abcdef`, which is then renamed.
    ///
    /// # Errors
    /// Returns an error if writing or renaming fails, for example because the name belongs to a directory.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let temporary = temporary_name();
        let file = self.create_file(&temporary)?;
        let written = file.write(bytes);
        drop(file);
        let written = written.and_then(|()| self.rename(&temporary, name));
        if written.is_err() {
            let _ = self.remove_file(&temporary);
        }
        written
    }
}

/// Opens a regular file that belongs to this user or to root.
///
/// # Errors
/// Returns a [`TrustError`] if the file is untrusted or opening it fails.
pub fn open(path: &Path) -> std::result::Result<File, TrustError> {
    // Opening some devices has side effects, so check the kind of file first.
    if !std::fs::metadata(path)?.is_file() {
        return Err(Untrusted::NotAFile.into());
    }
    File::trusted(open_without_blocking(path)?, true)
}

/// Writes a file that all users can read, by renaming a temporary file in the same directory.
///
/// # Errors
/// Returns an error if writing or renaming fails, for example because the path is a directory.
pub fn replace<'a>(path: &Path, mut pieces: impl Iterator<Item = &'a [u8]>) -> std::result::Result<(), TrustError> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Untrusted::NotAFile.into());
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", temporary_name()));
    let temporary = Path::new(&temporary);
    let file = create_new(temporary)?;
    let written = make_readable(&file).and_then(|()| pieces.try_for_each(|piece| write_all(&file, piece)));
    drop(file);
    let written = written.and_then(|()| std::fs::rename(temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(temporary);
    }
    Ok(written?)
}

/// Returns a unique name. Processes in two containers may have the same ID.
fn temporary_name() -> String {
    let random = RandomState::new().hash_one(SystemTime::now());
    format!("tmp-{}-{random:016x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no openat")]
    fn the_names_of_a_directory_are_those_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plan"), "").unwrap();
        assert!(Directory::create(dir.path()).is_ok_and(|dir| dir.names().is_ok_and(|names| names == ["plan"])));
    }

    /// Another user may be able to rename a parent directory after the check.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "Miri has no openat")]
    fn a_file_is_replaced_in_the_directory_that_was_checked() {
        let world = tempfile::tempdir().unwrap();
        let path = |name: &str| world.path().join(name);
        let dir = Directory::create(&path("checked")).unwrap_or_else(|error| panic!("{error}"));
        std::fs::create_dir(path("chosen")).unwrap();
        std::fs::rename(path("checked"), path("moved")).unwrap();
        std::os::unix::fs::symlink(path("chosen"), path("checked")).unwrap();
        for bytes in [b"old", b"new"] {
            dir.replace("facts", bytes).unwrap();
            assert_eq!(std::fs::read(path("moved/facts")).unwrap(), bytes);
        }
        assert!(dir.names().is_ok_and(|names| names == ["facts"]));
        assert_eq!(std::fs::read_dir(path("chosen")).unwrap().count(), 0);
    }
}
