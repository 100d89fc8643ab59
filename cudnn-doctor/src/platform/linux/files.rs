//! Files: their owners, and opening them without waiting.

use std::ffi::CString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
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

/// Does root alone make files at this path, which need not exist yet?
pub(crate) fn is_of_root(path: &Path) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    let nearest = path.ancestors().find_map(|above| std::fs::metadata(above).ok());
    nearest.is_some_and(|nearest| nearest.uid() == 0 && nearest.mode() & WRITABLE_BY_ALL == 0)
}

/// Can the doctor's user make this directory, or files in it?
pub(super) fn can_write(dir: &Path) -> bool {
    let nearest = dir.ancestors().find(|above| above.symlink_metadata().is_ok());
    let name = nearest.and_then(|nearest| CString::new(nearest.as_os_str().as_bytes()).ok());
    name.is_some_and(|name| {
        // SAFETY: the name is a text with a zero byte at its end.
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
    })
}

/// Is this file on a file system that is mounted without the right to execute what is there? ld.so loads nothing from it.
pub(crate) fn is_noexec(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a text with a zero byte at its end, and the structure is one that the call may write.
    let has_answered = unsafe { libc::statvfs(name.as_ptr(), &raw mut status) } == 0;
    has_answered && status.f_flag & libc::ST_NOEXEC != 0
}

/// Does this file or directory belong to the doctor's user?
pub(crate) fn belongs_to_user(path: &Path) -> bool {
    let uid = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
    uid(path) == uid(Path::new("/proc/self"))
}
