//! The owners and the permissions of files and programs.

use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Whether this process's user is root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Whether this file or directory belongs to root.
#[must_use]
pub fn belongs_to_root(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Whether only root can create files at this path, which need not exist yet.
#[must_use]
pub fn is_of_root(path: &Path) -> bool {
    const WRITABLE_BY_ALL: u32 = 0o002;
    let nearest = path.ancestors().find_map(|above| std::fs::metadata(above).ok());
    nearest.is_some_and(|nearest| nearest.uid() == 0 && nearest.mode() & WRITABLE_BY_ALL == 0)
}

/// Whether this process's user can create this directory, or files in it.
#[must_use]
pub fn can_write(dir: &Path) -> bool {
    let nearest = dir.ancestors().find(|above| above.symlink_metadata().is_ok());
    let name = nearest.and_then(|nearest| CString::new(nearest.as_os_str().as_bytes()).ok());
    name.is_some_and(|name| {
        // SAFETY: the name is a text with a zero byte at its end.
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
    })
}

/// Whether this file is on a file system that is mounted with `noexec`: ld.so loads no library from it.
#[must_use]
pub fn is_noexec(file: &Path) -> bool {
    let Ok(name) = CString::new(file.as_os_str().as_bytes()) else { return false };
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a text with a zero byte at its end, and the structure is one that the call may write.
    let has_answered = unsafe { libc::statvfs(name.as_ptr(), &raw mut status) } == 0;
    has_answered && status.f_flag & libc::ST_NOEXEC != 0
}

/// Whether this file or directory belongs to this process's user.
#[must_use]
pub fn belongs_to_user(path: &Path) -> bool {
    let uid = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
    uid(path) == uid(Path::new("/proc/self"))
}

/// The permissions of a file or directory: `0o644`.
#[must_use]
pub fn mode(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.mode() & 0o7777)
}

/// Whether other users than the owner may write to this file or directory.
#[must_use]
pub fn others_may_write(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o022 != 0)
}

/// Creates a directory and those above it, to which only this user can write.
///
/// # Errors
/// The system's.
pub fn create_own_dir(dir: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir)
}

/// Gives a new file the owner, if this user may, and the permissions of another one.
///
/// # Errors
/// The system's.
pub fn take_rights(file: &File, like: &Metadata) -> Result<()> {
    const READABLE: u32 = 0o444;
    const ALL: u32 = 0o777;
    if is_root() {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    // A link has all permissions, and gives none.
    let mode = if like.is_symlink() { READABLE | 0o200 } else { like.mode() & ALL | READABLE };
    file.set_permissions(Permissions::from_mode(mode))
}

/// Whether the kernel starts this program with other rights than those of this process's user: set-user-ID, set-group-ID or
/// capabilities. ld.so ignores most variables of the environment then.
#[must_use]
pub fn changes_rights(program: &Path) -> bool {
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
