//! Opens files in a directory without checking owners, because an access control list protects the user profile.

use std::fs::{DirBuilder, File as StdFile, Metadata, OpenOptions};
use std::io::{Result, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::trusted_files::{File, FileStat, TrustError, Untrusted};

/// Opens a file for reading and for changing the modification time, without following links.
fn open_without_following(path: &Path) -> Result<StdFile> {
    let mut options = OpenOptions::new();
    options.read(true);
    const GENERIC_READ: u32 = 0x8000_0000;
    const FILE_WRITE_ATTRIBUTES: u32 = 0x100;
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x20_0000;
    options.access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    options.open(path)
}

pub struct Directory(PathBuf);

impl Directory {
    pub fn open(path: &Path) -> std::result::Result<Self, TrustError> {
        if std::fs::metadata(path)?.is_dir() {
            Ok(Directory(path.to_owned()))
        } else {
            Err(Untrusted::NotADirectory.into())
        }
    }

    pub fn create(path: &Path) -> std::result::Result<Self, TrustError> {
        DirBuilder::new().recursive(true).create(path)?;
        Self::open(path)
    }

    pub fn create_private(path: &Path) -> std::result::Result<Self, TrustError> {
        match DirBuilder::new().create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Self::open_private(path),
        }
    }

    pub fn open_private(path: &Path) -> std::result::Result<Self, TrustError> {
        if std::fs::symlink_metadata(path)?.is_dir() {
            Ok(Directory(path.to_owned()))
        } else {
            Err(Untrusted::NotADirectory.into())
        }
    }

    pub fn open_file(&self, name: &str) -> std::result::Result<File, TrustError> {
        let path = self.0.join(name);
        // Windows cannot open a directory as a file, so check the kind first.
        if !std::fs::symlink_metadata(&path)?.is_file() {
            return Err(Untrusted::NotAFile.into());
        }
        File::trusted(open_without_following(&path)?, false)
    }

    pub fn create_file(&self, name: &str) -> Result<File> {
        create_new(&self.0.join(name)).map(File::new)
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.0.join(name);
        if std::fs::symlink_metadata(&path)?.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
    }

    pub fn remove_file(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    pub fn stat(&self, name: &str) -> Result<FileStat> {
        let metadata = std::fs::symlink_metadata(self.0.join(name))?;
        Ok(FileStat { size: metadata.len(), modified: metadata.modified().ok() })
    }

    pub fn set_modified(&self, name: &str, time: SystemTime) {
        let _ = open_without_following(&self.0.join(name)).and_then(|file| file.set_modified(time));
    }

    pub fn names(&self) -> Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// Accepts all owners.
pub(crate) fn check_owner(_: &Metadata, _: bool) -> std::result::Result<(), TrustError> {
    Ok(())
}

pub fn create_new(path: &Path) -> Result<StdFile> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

pub fn make_readable(_: &StdFile) -> Result<()> {
    Ok(())
}

pub(crate) fn write_all(mut file: &StdFile, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes)
}
