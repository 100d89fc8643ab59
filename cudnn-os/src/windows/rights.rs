//! Checks the rights of users. Administrators start programs with elevated rights, because there is no `sudo`.

use std::fs::{File, Metadata};
use std::io::Result;
use std::path::Path;

pub fn create_own_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
}

pub fn is_root() -> bool {
    false
}

pub fn is_of_root(_path: &Path) -> bool {
    false
}

pub fn belongs_to_user(_path: &Path) -> bool {
    true
}

pub fn can_write(_dir: &Path) -> bool {
    false
}

/// Returns success, because access control lists decide.
pub fn write_access(_dir: &Path) -> Result<()> {
    Ok(())
}

pub fn others_may_write(_path: &Path) -> bool {
    false
}

pub fn is_only_of_root(_metadata: &Metadata) -> bool {
    true
}

pub fn is_sticky_of_root(_metadata: &Metadata) -> bool {
    false
}

pub fn is_noexec(_file: &Path) -> bool {
    false
}

/// A no-op, because a new file inherits the rights of the directory.
pub fn take_rights(_file: &File, _like: &Metadata) -> Result<()> {
    Ok(())
}

pub fn changes_rights(_program: &Path) -> bool {
    false
}
