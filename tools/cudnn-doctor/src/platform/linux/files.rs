//! Files: their owners, and opening them without waiting.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink};
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

/// May other users than the owner write to this file or directory?
pub(crate) fn others_may_write(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o022 != 0)
}

/// Creates a directory and those above it, to which the user alone can write.
pub(crate) fn create_own_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir)
}

/// Locks a directory for this process, without a file in it. `WouldBlock` if another process has locked it; `None` on a
/// file system without locks.
pub(crate) fn lock_dir(dir: &Path) -> Result<Option<File>> {
    let file = File::open(dir)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(file));
    }
    let error = Error::last_os_error();
    if error.kind() == std::io::ErrorKind::WouldBlock { Err(error) } else { Ok(None) }
}

/// Writes the entries of a directory to the disk, where the file system can.
pub(crate) fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

/// Gives a new file the owner, if this user may, and the permissions of another one.
pub(crate) fn take_rights(file: &File, like: &Metadata) -> Result<()> {
    const READABLE: u32 = 0o444;
    const ALL: u32 = 0o777;
    if is_root() {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    // A link has all permissions, and gives none.
    let mode = if like.is_symlink() { READABLE | 0o200 } else { like.mode() & ALL | READABLE };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Makes a symbolic link like another one.
pub(crate) fn copy_link(link: &Path, copy: &Path) -> Result<()> {
    symlink(std::fs::read_link(link)?, copy)
}

/// Does the kernel start this program with other rights than those of the doctor's user? ld.so ignores most variables then.
pub(crate) fn changes_rights(program: &Path) -> bool {
    const GROUP_EXECUTES: u32 = 0o010;
    let Ok(file) = std::fs::metadata(program) else { return false };
    // SAFETY: the calls have no requirements.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let sets_user = file.mode() & libc::S_ISUID != 0 && file.uid() != uid;
    let sets_group = file.mode() & (libc::S_ISGID | GROUP_EXECUTES) == libc::S_ISGID | GROUP_EXECUTES;
    sets_user || sets_group && file.gid() != gid || uid != 0 && has_capabilities(program)
}

/// Does the file state capabilities, as that of `ping` may?
fn has_capabilities(program: &Path) -> bool {
    let Ok(name) = CString::new(program.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are texts with a zero byte at their end; a length of 0 asks for the length alone.
    unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
