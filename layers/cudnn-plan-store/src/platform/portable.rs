//! Windows, where the user's profile is closed to others by its access control list, and systems for which there is no
//! cuDNN.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Facts;
use crate::name;
use crate::problem::{Cause, ProblemKind};

/// The variables that name a directory for caches, and the store's directory below it.
pub(crate) const CACHE_DIRECTORIES: &[(&str, &str)] = if cfg!(windows) {
    &[("LOCALAPPDATA", "cudnn-plans")]
} else {
    &[("XDG_CACHE_HOME", "cudnn-plans"), ("HOME", ".cache/cudnn-plans")]
};

/// An open file.
pub(crate) struct File(std::fs::File);

impl File {
    fn regular(file: std::fs::File) -> std::result::Result<Self, Cause> {
        if file.metadata()?.is_file() { Ok(File(file)) } else { Err(ProblemKind::NotAFile.into()) }
    }

    pub(crate) fn facts(&self) -> Result<Facts> {
        let metadata = self.0.metadata()?;
        Ok(Facts { size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Bytes of the file. `None` if it ends before.
    pub(crate) fn read(&self, at: u64, length: u64) -> Result<Option<Vec<u8>>> {
        let length = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        bytes.resize(length, 0);
        let mut file = &self.0;
        file.seek(SeekFrom::Start(at))?;
        match file.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        (&self.0).write_all(bytes)
    }

    pub(crate) fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.0.set_modified(time)
    }
}

/// Opens a file for reading, without following a link, so that its time can be set.
fn open(path: &Path) -> Result<std::fs::File> {
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
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn open(path: &Path) -> std::result::Result<Self, Cause> {
        if std::fs::metadata(path)?.is_dir() {
            Ok(Directory(path.to_owned()))
        } else {
            Err(ProblemKind::NotADirectory.into())
        }
    }

    /// Opens a directory, and creates it and its parents if need be.
    pub(crate) fn create(path: &Path) -> std::result::Result<Self, Cause> {
        DirBuilder::new().recursive(true).create(path)?;
        Self::open(path)
    }

    /// Opens a regular file.
    pub(crate) fn open_file(&self, name: &str) -> std::result::Result<File, Cause> {
        let path = self.0.join(name);
        // A directory cannot be opened as a file.
        if !std::fs::symlink_metadata(&path)?.is_file() {
            return Err(ProblemKind::NotAFile.into());
        }
        File::regular(open(&path)?)
    }

    pub(crate) fn create_file(&self, name: &str) -> Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.0.join(name)).map(File)
    }

    /// Gives a file another name, also if that is in use.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    /// Removes a file, or an empty directory.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        if std::fs::symlink_metadata(&path)?.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
    }

    pub(crate) fn facts(&self, name: &str) -> Result<Facts> {
        let metadata = std::fs::symlink_metadata(self.0.join(name))?;
        Ok(Facts { size: metadata.len(), modified: metadata.modified().ok() })
    }

    /// Marks a file as used at this time.
    pub(crate) fn set_modified(&self, name: &str, time: SystemTime) {
        let _ = open(&self.0.join(name)).and_then(|file| file.set_modified(time));
    }

    /// The names of all files, but those that are not Unicode, which are not the store's.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Opens a pack.
pub(crate) fn open_pack(path: &Path) -> std::result::Result<File, Cause> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(ProblemKind::NotAFile.into());
    }
    File::regular(std::fs::File::open(path)?)
}

/// Writes a file under another name in its directory, then gives it its name.
pub(crate) fn replace_file<'a>(path: &Path, pieces: impl Iterator<Item = &'a [u8]>) -> std::result::Result<(), Cause> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(ProblemKind::NotAFile.into());
    }
    let temporary = name::beside(path);
    let file = File(OpenOptions::new().write(true).create_new(true).open(&temporary)?);
    let mut pieces = pieces;
    let written = pieces.try_for_each(|piece| file.write(piece)).and_then(|()| {
        drop(file);
        std::fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    Ok(written?)
}

/// Starts a thread for which nobody waits. Returns whether it started.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).is_ok()
}

/// What a program must not notice of system calls that are made beside its own: here there is nothing to keep.
pub mod unnoticed {
    /// Keeps nothing.
    #[derive(Default)]
    pub struct Unnoticed(());

    impl Unnoticed {
        /// Begins. Dropping it ends.
        pub fn new() -> Self {
            Unnoticed(())
        }
    }
}
