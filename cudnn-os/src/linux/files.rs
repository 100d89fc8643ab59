//! Converts, inspects and opens files. On Linux, paths are bytes, and files have inode numbers and mode bits.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
#[cfg(feature = "processes")]
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `O_NONBLOCK` and `O_NOCTTY` from `fcntl.h` on x86-64 and aarch64.
const O_NONBLOCK: i32 = 0o4000;
const O_NOCTTY: i32 = 0o400;
/// `O_NOFOLLOW` from `fcntl.h`.
const O_NOFOLLOW: i32 = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };

/// Device and inode number, which identify a file regardless of the path.
pub type FileId = (u64, u64);

/// Returns an identifier that all paths to the same file share.
pub fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns a unique identifier for a file that does not exist yet.
pub fn imagined_id(path: &Path) -> FileId {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    (u64::MAX, hasher.finish())
}

/// Returns the inode number of the file at a path.
pub fn inode(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Returns the absolute path with symbolic links resolved.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Returns the bytes of an operating-system string.
pub fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// Creates a path from bytes.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns whether the program has the setuid or setgid bit.
pub fn is_setid(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
}

pub(crate) const STICKY: u32 = 0o1000;
pub(crate) const OTHERS_WRITE: u32 = 0o002;
pub(crate) const GROUP_WRITES: u32 = 0o020;

/// Returns whether the group usually contains only one user: root's group, and a group with the number of its user.
pub(crate) fn has_private_group(metadata: &Metadata) -> bool {
    [0, metadata.uid()].contains(&metadata.gid())
}

/// Returns whether users can create files in the directory, but not remove files of others, as in /tmp.
pub fn is_like_tmp(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|dir| has_mode_of_tmp(&dir))
}

fn has_mode_of_tmp(dir: &Metadata) -> bool {
    dir.mode() & STICKY != 0 && dir.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0
}

/// Resolves the path of a file or directory next to a program. Links are checked once, so use the returned path.
///
/// Returns `None` if the file, the directory, or a link to it belongs to an untrusted user, if an untrusted user can
/// change the file, or if the directory is like `/tmp`. Trusted users are root, the owner of the program's directory,
/// and for a file, users who can also write to that directory. A missing path is returned unchanged.
pub fn resolve_beside(path: &Path, program_dir: &Path) -> Option<PathBuf> {
    let is_in_tmp = path.parent().is_some_and(is_like_tmp);
    let Ok(entry) = std::fs::symlink_metadata(path) else {
        // In a directory like /tmp, another user could create this path before it is used.
        return (!is_in_tmp).then(|| path.to_owned());
    };
    let program_dir = std::fs::metadata(program_dir).ok();
    let is_trusted = |found: &Metadata| {
        found.uid() == 0 || program_dir.as_ref().is_none_or(|program_dir| program_dir.uid() == found.uid())
    };
    if !is_trusted(&entry) {
        return None;
    }
    let is_open = |found: &Metadata| {
        let may_write = |bit, is_same: bool| {
            found.mode() & bit != 0 && !(is_same && program_dir.as_ref().is_some_and(|dir| dir.mode() & bit != 0))
        };
        let is_same_group = program_dir.as_ref().is_some_and(|dir| dir.gid() == found.gid());
        may_write(OTHERS_WRITE, true) || may_write(GROUP_WRITES, is_same_group) && !has_private_group(found)
    };
    if is_in_tmp {
        // A single check is sufficient, because other users cannot move a directory that root or the owner has created
        // here. However, users who can write to a directory may have moved it to this place.
        return (entry.is_dir() && !is_open(&entry)).then(|| path.to_owned());
    }
    // A sandbox may not allow reading links. Another user could create the target of a dangling link later.
    let resolved = canonicalize(path).or(if entry.is_symlink() { Err(()) } else { Ok(path.to_owned()) }).ok()?;
    let found = std::fs::metadata(&resolved).ok()?;
    let may_change = has_mode_of_tmp(&found) || found.is_file() && is_open(&found);
    (is_trusted(&found) && !may_change).then_some(resolved)
}

/// Returns whether the path is an executable file.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

pub(crate) fn is_device(_path: &Path) -> bool {
    false
}

/// Sets the permission bits of a file.
///
/// # Errors
/// Returns an error if the system call fails or the file system does not support permission bits.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes a new file readable for the same users as another file, and writable only for its owner.
pub fn make_as_private_as(file: &File, other: &Metadata) -> io::Result<()> {
    const READABLE: u32 = 0o644;
    file.set_permissions(Permissions::from_mode(other.mode() & READABLE))
}

/// Creates a symbolic link.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Opens a file without waiting for the writer of a pipe.
pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path)
}

pub(crate) fn open_without_following(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK | O_NOCTTY | O_NOFOLLOW).open(path)
}

/// Creates a file that disappears when it is closed, even if the process is killed. If the file system does not support
/// files without a name, the file has this name for a moment.
///
/// # Errors
/// Returns an error if no file with this name can be created.
#[cfg(feature = "native")]
pub fn create_temporary(name: &Path) -> io::Result<File> {
    let dir = name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unnamed = File::options().write(true).custom_flags(libc::O_TMPFILE).open(dir);
    unnamed.or_else(|_| {
        let file = File::create_new(name)?;
        std::fs::remove_file(name)?;
        Ok(file)
    })
}

/// Moves the file position past a hole at the beginning of the file, which would be read as zeros.
///
/// # Errors
/// Returns an error if the system call fails or the file contains only a hole.
#[cfg(feature = "processes")]
pub fn skip_hole(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let start = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    let has_no_data = start < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO);
    if has_no_data && file.metadata()?.len() > 0 {
        return Err(io::Error::other("it is one hole, without any data"));
    }
    // Without support for SEEK_DATA, the position stays at the beginning.
    Ok(())
}

/// Locks a directory for this process without creating a file in it. Returns `None` without support for locks.
///
/// # Errors
/// Returns `WouldBlock` if another process has locked the directory, or the error of the system call.
#[cfg(feature = "processes")]
pub fn lock_dir(dir: &Path) -> io::Result<Option<File>> {
    let file = File::open(dir)?;
    match super::descriptor::flock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        Err(_) => Ok(None),
    }
}

/// Writes directory entries to disk, if the file system supports it.
#[cfg(feature = "processes")]
pub fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

/// Reads bytes at an offset of a file. Returns the number of bytes read.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "native")]
    #[cfg_attr(miri, ignore = "O_NOFOLLOW is unsupported in Miri")]
    fn links_are_not_opened() {
        assert_eq!([O_NONBLOCK, O_NOCTTY, O_NOFOLLOW], [libc::O_NONBLOCK, libc::O_NOCTTY, libc::O_NOFOLLOW]);
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        std::fs::write(&file, "abc").unwrap();
        symlink(&file, &link).unwrap();
        assert!(open_without_following(&file).is_ok() && open_without_following(&link).is_err());
        use crate::files::{Opened, open_regular, open_regular_without_links};
        assert!(matches!(open_regular_without_links(&file), Ok(Opened::Regular(_, 3))));
        assert!(matches!(open_regular_without_links(&link), Ok(Opened::Other("a link"))));
        assert!(matches!(open_regular(&link), Ok(Opened::Regular(_, 3))));
    }

    #[test]
    #[cfg(feature = "native")]
    #[cfg_attr(miri, ignore = "O_NOFOLLOW is unsupported in Miri")]
    fn only_missing_empty_and_own_files_are_replaceable() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, content) in [("own", "Dear friend"), ("empty", ""), ("other", "import os")] {
            std::fs::write(at(name), content).unwrap();
        }
        symlink(&at("own"), &at("link")).unwrap();
        let own = |start: &[u8]| start.starts_with(b"Dear ");
        let is_replaceable = |path: &Path| crate::files::is_replaceable(path, own).ok();
        for (name, expected) in [
            ("own", Some(true)),
            ("empty", Some(true)),
            ("missing", Some(true)),
            ("other", Some(false)),
            ("link", Some(false)),
            ("", Some(false)),
            ("other/file", None),
        ] {
            assert_eq!(is_replaceable(&at(name)), expected, "{name}");
        }
        assert_eq!(is_replaceable(Path::new("/dev/null")), Some(false));
    }

    #[test]
    #[cfg(feature = "native")]
    #[cfg_attr(miri, ignore = "O_TMPFILE is unsupported in Miri")]
    fn a_temporary_file_is_in_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = create_temporary(&dir.path().join("name")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = create_temporary(&dir.path().join("nowhere/name")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_mode_bits_of_a_file_are_read() {
        let file = std::env::temp_dir().join(format!("cudnn-os-mode-{}", std::process::id()));
        std::fs::write(&file, "0123456789").unwrap();
        for (mode, expected) in [
            (0o644, (false, false)),
            (0o100, (true, false)),
            (0o654, (true, false)),
            (0o755, (true, false)),
            (0o4755, (true, true)),
            (0o2711, (true, true)),
            (0o4644, (false, true)),
        ] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!((is_executable(&file), is_setid(&file)), expected, "{mode:o}");
        }
        assert!(!is_executable(&std::env::temp_dir()), "a directory is no program");
        let opened = std::fs::metadata(&file).unwrap();
        assert_eq!(inode(&file), Some(opened.ino()));
        assert_eq!(file_id(&file), Some((opened.dev(), opened.ino())));
        std::fs::remove_file(&file).unwrap();
        assert_eq!((is_executable(&file), is_setid(&file), inode(&file)), (false, false, None));
    }
}
