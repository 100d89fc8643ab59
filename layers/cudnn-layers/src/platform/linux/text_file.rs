//! Text that is appended in complete pieces, to a file that processes share or to one of the program's streams.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use cudnn_plan_store::unnoticed::{Unnoticed, without_signal};

use super::descriptor::Descriptor;

/// Where text goes.
pub(crate) enum TextFile {
    /// A stream of the program, by the number of its descriptor.
    Stream(RawFd),
    File(Descriptor),
}

impl TextFile {
    pub(crate) fn stdout() -> Self {
        TextFile::Stream(libc::STDOUT_FILENO)
    }

    pub(crate) fn stderr() -> Self {
        TextFile::Stream(libc::STDERR_FILENO)
    }

    /// Opens a file to append to it, and creates it if need be. A pipe without a reader is an error.
    pub(crate) fn open(name: &Path) -> Result<Self> {
        let _unnoticed = Unnoticed::new();
        let path = std::path::absolute(name)?;
        let file = open_unless_trap(OpenOptions::new().append(true).create(true), &path)?;
        Descriptor::new(&file, path, false).map(TextFile::File)
    }

    /// Writes the text with one write, if the system takes it in one.
    pub(crate) fn write(&self, text: &[u8]) -> Result<()> {
        let _unnoticed = Unnoticed::new();
        match self {
            TextFile::Stream(number) => {
                // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
                let file = ManuallyDrop::new(unsafe { File::from_raw_fd(*number) });
                write_without_signals(&file, text)
            }
            TextFile::File(file) => file.with(|file| write_without_signals(file, text)),
        }
    }
}

/// Opens a file without waiting for the reader of a pipe. In a directory that others may write to, a symbolic link may
/// lead to a file that they want to have overwritten: it is followed only if this user or the owner of the directory
/// has made it.
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

/// Writes. A pipe without a reader and a file that may not grow are errors, and no signals.
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
            let is_open = TextFile::open(&shared.join("log")).is_ok();
            assert_eq!(is_open, is_followed, "{mode:o}, link of {owner:?}");
            assert_eq!(std::fs::read(&target).unwrap(), b"text");
        }
    }
}
