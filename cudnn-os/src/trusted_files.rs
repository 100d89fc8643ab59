//! Files and directories that nobody else can have written, as far as the system tells: for a cache that processes share.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::SystemTime;

use crate::files::read_at;
pub use crate::os::trusted_files::Directory;
use crate::os::trusted_files::{check_owner, create_new, make_readable, open_existing, write_all};

/// Why a file or directory is not used.
#[derive(Debug)]
pub enum Refusal {
    /// It is not a directory.
    NotADirectory,
    /// It is not a regular file.
    NotAFile,
    /// It belongs to another user.
    NotOwned {
        /// Its owner.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Other users can write to it.
    WritableByOthers {
        /// Its permission bits.
        mode: u32,
    },
    /// An error of the system.
    System(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::System(error)
    }
}

/// The size and time of a file.
pub struct Facts {
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, or marked as used.
    pub modified: Option<SystemTime>,
}

/// An open file.
pub struct File(std::fs::File);

impl File {
    pub(crate) fn new(file: std::fs::File) -> Self {
        File(file)
    }

    /// A regular file that nobody but this user, or root if that is allowed, can have written.
    pub(crate) fn trusted(file: std::fs::File, may_be_of_root: bool) -> std::result::Result<Self, Refusal> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Refusal::NotAFile);
        }
        check_owner(&metadata, may_be_of_root)?;
        Ok(File(file))
    }

    /// Returns its size and time.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self) -> Result<Facts> {
        let metadata = self.0.metadata()?;
        Ok(Facts { size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Reads bytes at an offset. `None` if the file ends before.
    ///
    /// # Errors
    /// The system's, or that there is not enough memory.
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

    /// Appends. A file that may not grow is an error, and no signal.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        write_all(&self.0, bytes)
    }

    /// Marks the file as used at this time.
    ///
    /// # Errors
    /// The system's.
    pub fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.0.set_modified(time)
    }
}

/// Opens a regular file of this user or of root.
///
/// # Errors
/// Why it cannot be trusted, or the system's.
pub fn open(path: &Path) -> std::result::Result<File, Refusal> {
    // Some devices act when they are opened.
    if !std::fs::metadata(path)?.is_file() {
        return Err(Refusal::NotAFile);
    }
    File::trusted(open_existing(path)?, true)
}

/// Writes a file for all users to read: under another name in its directory first, then it gets its name.
///
/// # Errors
/// The system's, or that something else than a file has the name.
pub fn replace<'a>(
    path: &Path,
    temporary: &Path,
    mut pieces: impl Iterator<Item = &'a [u8]>,
) -> std::result::Result<(), Refusal> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Refusal::NotAFile);
    }
    let file = create_new(temporary)?;
    let written = make_readable(&file).and_then(|()| pieces.try_for_each(|piece| write_all(&file, piece)));
    drop(file);
    let written = written.and_then(|()| std::fs::rename(temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(temporary);
    }
    Ok(written?)
}
