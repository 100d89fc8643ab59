//! A directory and the files in it on Windows, where the user's profile is closed to others by its access control list, and
//! on systems for which there is no cuDNN.

use std::fs::{DirBuilder, File as StdFile, Metadata, OpenOptions};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::trusted_files::{Facts, File, Refusal};

/// Opens a file for reading, without following a link, so that its time can be set.
fn open_without_following(path: &Path) -> Result<StdFile> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const GENERIC_READ: u32 = 0x8000_0000;
        const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x20_0000;
        options.access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }
    options.open(path)
}

/// A directory.
pub struct Directory(PathBuf);

impl Directory {
    /// Opens a directory.
    ///
    /// # Errors
    /// That it is of another kind, or the system's.
    pub fn open(path: &Path) -> std::result::Result<Self, Refusal> {
        if std::fs::metadata(path)?.is_dir() { Ok(Directory(path.to_owned())) } else { Err(Refusal::NotADirectory) }
    }

    /// Opens a directory, and creates it and its parents if need be.
    ///
    /// # Errors
    /// That it is of another kind, or the system's.
    pub fn create(path: &Path) -> std::result::Result<Self, Refusal> {
        DirBuilder::new().recursive(true).create(path)?;
        Self::open(path)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// That it is of another kind, or the system's.
    pub fn open_file(&self, name: &str) -> std::result::Result<File, Refusal> {
        let path = self.0.join(name);
        // A directory cannot be opened as a file.
        if !std::fs::symlink_metadata(&path)?.is_file() {
            return Err(Refusal::NotAFile);
        }
        File::trusted(open_without_following(&path)?, false)
    }

    /// Creates a file.
    ///
    /// # Errors
    /// The system's.
    pub fn create_file(&self, name: &str) -> Result<File> {
        create_new(&self.0.join(name)).map(File::new)
    }

    /// Gives a file another name, also if that is in use.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Removes a file, or an empty directory.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        if std::fs::symlink_metadata(&path)?.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
    }

    /// Returns the size and time of a file.
    ///
    /// # Errors
    /// The system's.
    pub fn facts(&self, name: &str) -> Result<Facts> {
        let metadata = std::fs::symlink_metadata(self.0.join(name))?;
        Ok(Facts { size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Marks a file as used at this time.
    pub fn set_modified(&self, name: &str, time: SystemTime) {
        let _ = open_without_following(&self.0.join(name)).and_then(|file| file.set_modified(time));
    }

    /// Returns the names of all files, without those that are not Unicode.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Refuses nothing.
pub(crate) fn check_owner(_: &Metadata, _: bool) -> std::result::Result<(), Refusal> {
    Ok(())
}

/// Opens a file for reading.
pub(crate) fn open_existing(path: &Path) -> Result<StdFile> {
    StdFile::open(path)
}

/// Creates a file.
pub(crate) fn create_new(path: &Path) -> Result<StdFile> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Does nothing.
pub(crate) fn make_readable(_: &StdFile) -> Result<()> {
    Ok(())
}

/// Writes.
pub(crate) fn write_all(mut file: &StdFile, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
}
