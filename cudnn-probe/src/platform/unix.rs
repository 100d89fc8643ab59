//! Unix: paths are bytes, files have inode numbers and mode bits.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Os;

/// cuDNN 9 exists for Linux alone of these systems; on others, files for Linux can be read.
pub(super) const OS: Os = Os::Linux;

/// `O_NONBLOCK` of `fcntl.h`, on x86-64 and aarch64.
const O_NONBLOCK: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 0o4000 } else { 0x0004 };

/// Device and inode number, which identify a file behind any path.
pub(crate) type FileId = (u64, u64);

pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

pub(crate) fn inode(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.ino())
}

/// The file name of the Python that a person starts.
pub(crate) const PYTHON: &str = "python3";

/// A path below a root, both spelled as the system does. The path has `/` between its parts.
pub(crate) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path)
}

/// The absolute path without symbolic links in it.
///
/// # Errors
/// The system's.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

pub(crate) fn bytes_of(text: &OsStr) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Does a process of this program run with other rights than those of the user who starts it?
pub(crate) fn is_setid(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
}

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Is this directory one like /tmp: others put files into it, and cannot remove what is not theirs?
pub(crate) fn is_like_tmp(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|dir| has_mode_of_tmp(&dir))
}

fn has_mode_of_tmp(dir: &Metadata) -> bool {
    dir.mode() & STICKY != 0 && dir.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0
}

/// The directory at a path beside a program, with links resolved once: use no other path to it. `None` if another user
/// may have put it there, or files into it, who may not replace the program. Only root and the owner of the program's
/// directory are trusted, with a link too. A path where there is nothing stays as it is.
pub(crate) fn resolve_beside(path: &Path, program_dir: &Path) -> Option<PathBuf> {
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

pub(crate) fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// On this system metadata shows what a device is.
pub(super) fn is_device(_path: &Path) -> bool {
    false
}

pub(super) fn open_without_blocking(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(into, offset)
}

/// The value that an environment variable had when this process was started. The outer `None` means that it is
/// unknown.
pub(crate) fn initial_env(name: &str) -> Option<Option<OsString>> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let block = std::fs::read("/proc/self/environ").ok()?;
    let value = env_value(&block, name)?;
    Some(value.map(|value| path_from_bytes(value).into_os_string()))
}

/// The value of a variable in a block of `NAME=VALUE` entries that each end with a zero byte. The outer `None` means
/// that this is no such block: a program that changes its title (`setproctitle`) overwrites it.
fn env_value<'a>(block: &'a [u8], name: &str) -> Option<Option<&'a [u8]>> {
    let entries = block.strip_suffix(b"\0")?;
    let is_entry = |entry: &[u8]| entry.iter().position(|byte| *byte == b'=').is_some_and(|end| end > 0);
    if !entries.split(|byte| *byte == 0).all(is_entry) {
        return None;
    }
    let value = |entry: &'a [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    Some(entries.split(|byte| *byte == 0).find_map(value))
}

/// The value of a variable as it is: a shell has removed its quotes.
pub(crate) fn without_quotes(value: OsString) -> OsString {
    value
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_initial_environment_is_parsed_strictly() {
        let block = b"A=1\0LD_LIBRARY_PATH=/x:/y\0E=\0";
        assert_eq!(env_value(block, "LD_LIBRARY_PATH"), Some(Some(&b"/x:/y"[..])));
        assert_eq!(env_value(block, "E"), Some(Some(&b""[..])));
        assert_eq!(env_value(block, "LD_LIBRARY"), Some(None));
        // setproctitle leaves a title, then zeros.
        for overwritten in [&b""[..], b"\0\0\0", b"ray::worker A=1\0\0\0\0", b"ray::idle\0A=1\0", b"A=1", b"=1\0"] {
            assert_eq!(env_value(overwritten, "LD_LIBRARY_PATH"), None, "{overwritten:?}");
        }
    }

    #[test]
    fn the_mode_bits_of_a_file_are_read() {
        let file = std::env::temp_dir().join(format!("cudnn-probe-mode-{}", std::process::id()));
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
