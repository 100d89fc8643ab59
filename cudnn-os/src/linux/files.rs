//! Files: paths are bytes, files have inode numbers and mode bits.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions};
use std::io;
#[cfg(feature = "processes")]
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `O_NONBLOCK` of `fcntl.h`, on x86-64 and aarch64.
const O_NONBLOCK: i32 = 0o4000;

/// Device and inode number, which identify a file behind any path.
pub type FileId = (u64, u64);

/// Returns what identifies the file at a path, whatever its name.
pub fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns the inode number of the file at a path.
pub fn inode(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Returns the absolute path without symbolic links in it.
///
/// # Errors
/// The system's.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// Returns the bytes of a text of the system.
pub fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

/// Returns the path that these bytes spell.
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Whether a process of this program runs with other rights than those of the user who starts it.
pub fn is_setid(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
}

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Whether this directory is one like /tmp, in which others can create files, but cannot remove those of other users.
pub fn is_like_tmp(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|dir| has_mode_of_tmp(&dir))
}

fn has_mode_of_tmp(dir: &Metadata) -> bool {
    dir.mode() & STICKY != 0 && dir.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0
}

/// Returns the directory at a path beside a program, with links resolved once: use no other path to it. `None` if another user
/// may have put it there, or files into it, who may not replace the program. Only root and the owner of the program's
/// directory are trusted, with a link too. A path where there is nothing stays as it is.
pub fn resolve_beside(path: &Path, program_dir: &Path) -> Option<PathBuf> {
    let is_in_tmp = path.parent().is_some_and(is_like_tmp);
    let Ok(entry) = std::fs::symlink_metadata(path) else {
        // In a directory like /tmp another user could put one there before it is read.
        return (!is_in_tmp).then(|| path.to_owned());
    };
    let program_dir = std::fs::metadata(program_dir).ok();
    let is_trusted = |found: &Metadata| {
        found.uid() == 0 || program_dir.as_ref().is_none_or(|program_dir| program_dir.uid() == found.uid())
    };
    if !is_trusted(&entry) {
        return None;
    }
    if is_in_tmp {
        // One look, and the path stays true: nobody else can move a directory of root or of the owner from there. But
        // whoever may write to a directory can have moved it there.
        let may_write = |bit, is_same: bool| {
            entry.mode() & bit != 0 && !(is_same && program_dir.as_ref().is_some_and(|dir| dir.mode() & bit != 0))
        };
        let is_same_group = program_dir.as_ref().is_some_and(|dir| dir.gid() == entry.gid());
        let is_open = may_write(OTHERS_WRITE, true) || may_write(GROUP_WRITES, is_same_group) && entry.gid() != 0;
        return (entry.is_dir() && !is_open).then(|| path.to_owned());
    }
    // A sandbox may deny reading links. One that leads nowhere yet leads to what somebody puts there.
    let resolved = canonicalize(path).or(if entry.is_symlink() { Err(()) } else { Ok(path.to_owned()) }).ok()?;
    let found = std::fs::metadata(&resolved).ok()?;
    (is_trusted(&found) && !has_mode_of_tmp(&found)).then_some(resolved)
}

/// Whether the path leads to a file that somebody may execute.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// On this system metadata shows what a device is.
pub(crate) fn is_device(_path: &Path) -> bool {
    false
}

/// Sets the permission bits of a file.
///
/// # Errors
/// The system's, or that it has no such bits.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Creates a symbolic link.
///
/// # Errors
/// The system's.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Opens a file without waiting for the writer of a pipe.
pub(crate) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

/// Skips the hole at the beginning of a file, which would be read as zeros.
///
/// # Errors
/// The system's, or that the whole file is a hole.
#[cfg(feature = "processes")]
pub fn skip_hole(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let start = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    let has_no_data = start < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO);
    if has_no_data && file.metadata()?.len() > 0 {
        return Err(io::Error::other("it is one hole, without any data"));
    }
    // Without support by the file system, the position is still the beginning.
    Ok(())
}

/// Locks a directory for this process, without a file in it. `None` on a file system without locks.
///
/// # Errors
/// `WouldBlock` if another process has locked it, or the system's.
#[cfg(feature = "processes")]
pub fn lock_dir(dir: &Path) -> io::Result<Option<File>> {
    let file = File::open(dir)?;
    match super::descriptor::flock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
        Err(_) => Ok(None),
    }
}

/// Writes the entries of a directory to the disk, if the file system can do that.
#[cfg(feature = "processes")]
pub fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

/// Reads bytes at an offset of a file. Returns how many it read.
///
/// # Errors
/// The system's.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

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
