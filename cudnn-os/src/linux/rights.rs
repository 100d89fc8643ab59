//! Reads and changes owners and permissions of files.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use super::files::{GROUP_WRITES, OTHERS_WRITE, STICKY, has_private_group};
use super::{groups, trusted_files::user};

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    user() == 0
}

/// Returns whether only root can create files at this path, which may not exist yet.
pub fn is_of_root(path: &Path) -> bool {
    let nearest = path.ancestors().find_map(|above| std::fs::metadata(above).ok());
    nearest.is_some_and(|nearest| nearest.uid() == 0 && nearest.mode() & OTHERS_WRITE == 0)
}

/// Returns whether the user of this process can create this directory, or files in it.
pub fn can_write(dir: &Path) -> bool {
    write_access(dir).is_ok()
}

/// Checks that the user of this process can create this directory, or files in it.
///
/// # Errors
/// Returns the reason: missing permissions, or a read-only file system.
pub fn write_access(dir: &Path) -> Result<()> {
    let nearest = dir.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(dir);
    let name = CString::new(nearest.as_os_str().as_bytes())?;
    // SAFETY: the name is NUL-terminated.
    match unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Returns whether ld.so cannot load libraries from the file system of a file, because it is mounted with `noexec`.
pub fn is_noexec(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid value of this C structure.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is NUL-terminated, and the output pointer is valid.
    let has_answered = unsafe { libc::statvfs(name.as_ptr(), &raw mut status) } == 0;
    has_answered && status.f_flag & libc::ST_NOEXEC != 0
}

/// Returns whether this file or directory belongs to the user of this process.
pub fn belongs_to_user(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.uid() == user())
}

/// Returns whether users other than the owner may write to this file or directory.
pub fn others_may_write(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| is_writable_for_others(&metadata))
}

fn is_writable_for_others(metadata: &Metadata) -> bool {
    // With an access control list, these bits are the permissions of the list's strongest entry.
    let is_for_group = metadata.mode() & GROUP_WRITES != 0 && !has_private_group(metadata);
    metadata.mode() & OTHERS_WRITE != 0 || is_for_group && !groups::is_empty(metadata.gid())
}

/// Returns whether a file, directory or link belongs to root, and only root may write to it. The permission bits of
/// links are meaningless.
pub fn is_only_of_root(metadata: &Metadata) -> bool {
    metadata.uid() == 0 && (metadata.is_symlink() || !is_writable_for_others(metadata))
}

/// Returns whether this is a directory of root, such as `/tmp`, where only owners can rename and remove files.
pub fn is_sticky_of_root(metadata: &Metadata) -> bool {
    metadata.is_dir() && metadata.uid() == 0 && metadata.mode() & STICKY != 0
}

/// Creates a directory and missing parents, to which only this user can write.
///
/// # Errors
/// Returns an error if the system call fails, or if other users can write to an existing directory.
pub fn create_own_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    if belongs_to_user(dir) && !others_may_write(dir) {
        Ok(())
    } else {
        Err(Error::other("other users may write to the directory"))
    }
}

/// Gives a new file the permissions and, if allowed, the owner of another file.
pub fn take_rights(file: &File, like: &Metadata) -> Result<()> {
    const READABLE: u32 = 0o444;
    const ALL: u32 = 0o777;
    if is_root() {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    // The mode bits of a symbolic link are meaningless.
    let mode = if like.is_symlink() { READABLE | 0o200 } else { like.mode() & ALL | READABLE };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Returns whether the kernel starts this program with different rights because of set-user-ID, set-group-ID or
/// capabilities. ld.so then ignores most environment variables.
pub fn changes_rights(program: &Path) -> bool {
    const GROUP_EXECUTES: u32 = 0o010;
    let Ok(file) = std::fs::metadata(program) else { return false };
    // SAFETY: both calls involve no pointers and always succeed.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let sets_user = file.mode() & libc::S_ISUID != 0 && file.uid() != uid;
    let sets_group = file.mode() & (libc::S_ISGID | GROUP_EXECUTES) == libc::S_ISGID | GROUP_EXECUTES;
    sets_user || sets_group && file.gid() != gid || uid != 0 && has_capabilities(program)
}

/// Returns whether the file has capabilities, as `ping` often does.
fn has_capabilities(program: &Path) -> bool {
    let Ok(name) = CString::new(program.as_os_str().as_bytes()) else { return false };
    // SAFETY: both names are NUL-terminated. With length 0, the call only returns the size.
    unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
