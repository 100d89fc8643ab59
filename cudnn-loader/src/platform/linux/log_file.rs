//! Writing log entries: to a file that processes may share, and to the standard streams.

use std::ffi::c_int;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::clock::nanoseconds;

/// An open log file. With device and inode: a program that closes all descriptors may later have another file under
/// this number.
pub(crate) struct LogFile(File, FileId);

/// Device and inode.
type FileId = (u64, u64);

impl LogFile {
    /// Opens the file, and empties it if it was modified at a time, in nanoseconds, that the caller names. A pipe without
    /// a reader fails, because the log does not wait.
    pub(crate) fn open(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Option<Self> {
        let file = open_unless_trap(File::options().create(true).write(true).mode(0o666), name).ok()?;
        let metadata = file.metadata().ok()?;
        // None of the first three numbers: they belong to others even if they are free now.
        let file = duplicate(file.as_raw_fd())?;
        if metadata.is_file() {
            if is_emptied(nanoseconds(metadata.mtime(), metadata.mtime_nsec())) {
                file.set_len(0).ok()?;
            }
            // Blocking and appending, so that processes that share the file write complete entries.
            fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND)?;
        }
        Some(LogFile(file, file_id(&metadata)))
    }

    /// Whether the descriptor belongs to another file now, which must be neither written to nor closed.
    pub(crate) fn is_replaced(&self) -> bool {
        self.0.metadata().ok().as_ref().map(file_id) != Some(self.1)
    }

    pub(crate) fn write(&mut self, text: &[u8]) {
        write_without_sigpipe(&mut self.0, text);
    }
}

/// Opens a file without waiting for the reader of a pipe. In a directory that others may write to, a symbolic link may lead to a
/// file that they want to have overwritten: it is followed only if this user or the owner of the directory has made it.
fn open_unless_trap(options: &mut OpenOptions, path: &Path) -> Result<File> {
    match options.clone().custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) && is_trusted_link(path) => {
            options.custom_flags(libc::O_NONBLOCK).open(path)
        }
        opened => opened,
    }
}

fn is_trusted_link(path: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(link), Ok(dir)) = (std::fs::symlink_metadata(path), std::fs::metadata(parent)) else { return false };
    // SAFETY: the call takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let is_shared = dir.mode() & 0o022 != 0;
    // Others cannot replace the link.
    let is_kept = dir.mode() & STICKY != 0 || (dir.uid() == user && dir.mode() & 0o002 == 0);
    !is_shared || (is_kept && [user, dir.uid()].contains(&link.uid()))
}

fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Whether the path leads to something that no process empties: a device or a pipe, such as /dev/stderr.
pub(crate) fn is_special(name: &Path) -> bool {
    match std::fs::metadata(name) {
        Ok(metadata) => !metadata.is_file(),
        // /dev/stderr is a link that leads nowhere in a program that has closed it.
        Err(_) => name.starts_with("/dev") && name.is_symlink(),
    }
}

pub(crate) fn write_to_stdout(text: &[u8]) {
    write_to_descriptor(libc::STDOUT_FILENO, text);
}

pub(crate) fn write_to_stderr(text: &[u8]) {
    write_to_descriptor(libc::STDERR_FILENO, text);
}

/// Writes to one of the program's descriptors.
fn write_to_descriptor(descriptor: RawFd, text: &[u8]) {
    // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    write_without_sigpipe(&mut file, text);
}

/// Writes, and discards the SIGPIPE if the reader has closed the pipe: it must not end the program.
fn write_without_sigpipe(file: &mut File, text: &[u8]) {
    // SAFETY: sets of signals, for which zero is a value.
    let (mut pipe, mut previous, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { std::mem::zeroed() };
    // SAFETY: all three exist; SIGPIPE is a signal.
    let was_pending = unsafe {
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut previous);
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    };
    let is_broken = file.write_all(text).is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
    // SAFETY: a timeout of zero; the sets exist.
    unsafe {
        let now: libc::timespec = std::mem::zeroed();
        if is_broken && !was_pending {
            libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const previous, std::ptr::null_mut());
    }
}

fn fcntl(descriptor: RawFd, command: c_int, argument: c_int) -> Option<c_int> {
    // SAFETY: the commands take a number, and the kernel refuses a descriptor that is closed.
    let result = unsafe { libc::fcntl(descriptor, command, argument) };
    (result >= 0).then_some(result)
}

/// Another descriptor for the same open file, above the first three, that no child program inherits.
fn duplicate(descriptor: RawFd) -> Option<File> {
    let descriptor = fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3)?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no lchown")]
    fn links_of_others_in_shared_directories_are_not_followed() {
        const NOBODY: u32 = 65534;
        // SAFETY: the call takes nothing and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        for (mode, owner, is_followed) in [
            (0o755, None, true),
            (0o775, None, true),
            (0o1777, None, true),
            (0o777, None, false),
            (0o755, Some(NOBODY), true),
            (0o1777, Some(NOBODY), false),
            (0o775, Some(NOBODY), false),
        ] {
            if owner.is_some() && !is_root {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let (shared, target) = (dir.path().join("shared"), dir.path().join("target"));
            std::fs::create_dir(&shared).unwrap();
            std::fs::write(&target, "text").unwrap();
            symlink(&target, shared.join("log")).unwrap();
            lchown(shared.join("log"), owner, None).unwrap();
            std::fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
            let is_open = LogFile::open(&shared.join("log"), |_| false).is_some();
            assert_eq!(is_open, is_followed, "{mode:o}, link of {owner:?}");
            assert_eq!(std::fs::read(&target).unwrap(), b"text");
        }
    }
}
