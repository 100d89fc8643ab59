//! Files: their owners, and opening them without waiting.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file for reading. Opening a pipe, or reading the kernel's log, does not wait.
pub(crate) fn open_without_waiting(file: &Path) -> Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)
}

/// Creates a directory that only this user can enter.
pub(crate) fn create_private_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(dir)
}

/// Skips the hole at the beginning of a file, which would be read as zeros.
pub(crate) fn skip_hole(file: &File) -> Result<()> {
    // SAFETY: the descriptor is open.
    let start = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    let has_no_data = start < 0 && Error::last_os_error().raw_os_error() == Some(libc::ENXIO);
    if has_no_data && file.metadata()?.len() > 0 {
        return Err(Error::other("it is one hole, without any data"));
    }
    // Without support by the file system, the position is still the beginning.
    Ok(())
}

/// Is the doctor's user root?
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Does this file or directory belong to root?
pub(crate) fn belongs_to_root(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Does this file or directory belong to the doctor's user?
pub(crate) fn belongs_to_user(path: &Path) -> bool {
    let uid = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
    uid(path) == uid(Path::new("/proc/self"))
}
