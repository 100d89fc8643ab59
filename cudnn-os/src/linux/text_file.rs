//! Appends complete pieces of text to a shared file or to a standard stream.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::cancel::ThreadStateGuard;
use super::clock::nanoseconds;
use super::descriptor::Descriptor;
use super::files::{GROUP_WRITES, OTHERS_WRITE, STICKY};
use super::signals::without_signal;
use super::trusted_files::user;

/// A file or stream to append text to. Writing never raises a signal and cannot be cancelled. If the program closes all
/// descriptors, the file is opened again. Other files of the program are never written to.
pub struct TextFile(Destination);

enum Destination {
    /// A standard stream, which is any file that the program has under this number.
    Stream(RawFd),
    File(Descriptor),
}

impl TextFile {
    /// Returns the standard output of the program.
    pub const fn stdout() -> Self {
        TextFile(Destination::Stream(libc::STDOUT_FILENO))
    }

    /// Returns the standard error of the program.
    pub const fn stderr() -> Self {
        TextFile(Destination::Stream(libc::STDERR_FILENO))
    }

    /// Opens a file for appending, and creates it if necessary.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, or is a pipe without a reader, because the call does not wait.
    pub fn open(name: &Path) -> Result<Self> {
        TextFile::open_emptied(name, |_| false)
    }

    /// Opens a file for appending. `is_emptied` gets the modification time in ns since 1970, and decides on truncation.
    ///
    /// # Errors
    /// See [`TextFile::open`].
    pub fn open_emptied(name: &Path, is_emptied: impl FnOnce(i64) -> bool) -> Result<Self> {
        let _guard = ThreadStateGuard::new();
        let path = std::path::absolute(name)?;
        let file = open_unless_trap(OpenOptions::new().append(true).create(true), &path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && is_emptied(nanoseconds(metadata.mtime(), metadata.mtime_nsec())) {
            file.set_len(0)?;
        }
        Descriptor::new(&file, path, false).map(|file| TextFile(Destination::File(file)))
    }

    /// Writes the text with a single system call if possible.
    pub fn write(&self, text: &[u8]) -> Result<()> {
        let _guard = ThreadStateGuard::new();
        match &self.0 {
            Destination::Stream(number) => {
                // SAFETY: `ManuallyDrop` leaves the descriptor open. If the program has closed it, writing fails.
                let file = ManuallyDrop::new(unsafe { File::from_raw_fd(*number) });
                write_without_signals(&file, text)
            }
            Destination::File(file) => file.with(|file| write_without_signals(file, text)),
        }
    }
}

/// Returns whether the path is a device or pipe, such as /dev/stderr, which cannot be truncated.
pub fn is_special(name: &Path) -> bool {
    match std::fs::metadata(name) {
        Ok(metadata) => !metadata.is_file(),
        // /dev/stderr is a dangling link in programs that have closed standard error.
        Err(_) => name.starts_with("/dev") && name.is_symlink(),
    }
}

/// Opens a file without waiting for the reader of a pipe.
///
/// In a directory that other users can write to, a symbolic link could make this process overwrite another file. A link
/// is therefore followed only if this user or the owner of the directory created it. A file or pipe of another user in
/// a directory for all users could receive this process's text, and is refused as with `fs.protected_regular`.
fn open_unless_trap(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    if let Ok(new) = options.clone().create_new(true).custom_flags(flags).open(path) {
        return Ok(new);
    }
    match options.clone().custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) && is_trusted_link(path) => {
            options.custom_flags(libc::O_NONBLOCK).open(path)
        }
        Ok(file) if is_prepared(&file, path) => {
            let reason = "another user owns the file, in a directory that all users can write to";
            Err(Error::new(ErrorKind::PermissionDenied, reason))
        }
        opened => opened,
    }
}

/// Returns whether another user has created the file in a directory that all users can write to.
fn is_prepared(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(dir)) = (file.metadata(), std::fs::metadata(parent(path))) else { return true };
    dir.mode() & OTHERS_WRITE != 0 && ![user(), dir.uid()].contains(&file.uid())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns whether this user may follow a symbolic link, because this user or the owner of the directory created it, or
/// because no other user can write to the directory.
pub fn is_trusted_link(path: &Path) -> bool {
    let (Ok(link), Ok(dir)) = (std::fs::symlink_metadata(path), std::fs::metadata(parent(path))) else { return false };
    let user = user();
    let is_shared = dir.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0;
    // Other users cannot replace the link.
    let is_kept = dir.mode() & STICKY != 0 || (dir.uid() == user && dir.mode() & OTHERS_WRITE == 0);
    !is_shared || (is_kept && [user, dir.uid()].contains(&link.uid()))
}

/// Writes text. A pipe without a reader or an exceeded file size limit is an error and not a signal.
fn write_without_signals(mut file: &File, text: &[u8]) -> Result<()> {
    let is = |kind| move |written: &Result<()>| written.as_ref().is_err_and(|error| error.kind() == kind);
    let write = || without_signal(libc::SIGPIPE, || file.write_all(text), is(ErrorKind::BrokenPipe));
    without_signal(libc::SIGXFSZ, write, is(ErrorKind::FileTooLarge))
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
        // SAFETY: the call involves no pointers and always succeeds.
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
            let is_open = TextFile::open(&shared.join("log")).is_ok();
            assert_eq!(is_open, is_followed, "{mode:o}, link of {owner:?}");
            assert_eq!(std::fs::read(&target).unwrap(), b"text");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no chown")]
    fn files_that_others_have_prepared_in_shared_directories_are_not_written() {
        const NOBODY: u32 = 65534;
        // SAFETY: the call involves no pointers and always succeeds.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        for (mode, owner, is_written) in [
            (0o1777, None, true),
            (0o1777, Some(NOBODY), false),
            (0o777, Some(NOBODY), false),
            (0o775, Some(NOBODY), true),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("log");
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
            std::os::unix::fs::chown(&file, owner, None).unwrap();
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(TextFile::open(&file).is_ok(), is_written, "{mode:o}, file of {owner:?}");
        }
    }
}
