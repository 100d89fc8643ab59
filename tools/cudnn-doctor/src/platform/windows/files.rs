//! Files: opening them without waiting. Their owners decide nothing here: an administrator's rights are those of a
//! program that was started with them, and no prefix of a command gives them.

use std::fs::{File, Metadata};
use std::io::{Error, Result};
use std::path::Path;

/// Opens a regular file for reading. A name such as `CON` or `COM1` is a device, and a pipe would wait.
pub(crate) fn open_without_waiting(file: &Path) -> Result<File> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(Error::other("not a regular file"));
    }
    File::open(file)
}

/// Creates a directory. The user's directory for temporary files is for this user alone.
pub(crate) fn create_private_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir(dir)
}

/// Skips the hole at the beginning of a file: who cuts a log while it is written leaves none here.
pub(crate) fn skip_hole(_file: &File) -> Result<()> {
    Ok(())
}

pub(crate) fn is_root() -> bool {
    false
}

pub(crate) fn belongs_to_root(_path: &Path) -> bool {
    false
}

/// Does only the administrator make files at this path?
pub(crate) fn is_of_root(_path: &Path) -> bool {
    false
}

pub(crate) fn belongs_to_user(_path: &Path) -> bool {
    true
}

pub(crate) fn others_may_write(_path: &Path) -> bool {
    false
}

pub(crate) fn create_own_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
}

/// Windows locks no directories.
pub(crate) fn lock_dir(_dir: &Path) -> Result<Option<File>> {
    Ok(None)
}

pub(crate) fn sync_dir(_dir: &Path) {}

/// A new file has the rights of its directory.
pub(crate) fn take_rights(_file: &File, _like: &Metadata) -> Result<()> {
    Ok(())
}

/// Making a symbolic link needs a privilege.
pub(crate) fn copy_link(_link: &Path, _copy: &Path) -> Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub(crate) fn changes_rights(_program: &Path) -> bool {
    false
}
