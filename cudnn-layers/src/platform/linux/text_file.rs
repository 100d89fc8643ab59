//! Text that is appended in complete pieces, to a file that processes share or to one of the program's streams.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cudnn_plan_store::unnoticed::{Unnoticed, without_signal};

/// Where text goes.
pub(crate) enum TextFile {
    /// A stream of the program, by the number of its descriptor.
    Stream(RawFd),
    /// A file. With device and inode: a program that closes all descriptors may later have another file under the number.
    File { path: PathBuf, file: ManuallyDrop<File>, device: u64, inode: u64 },
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
        let file = open(&path)?;
        // None of the first three numbers, which belong to others even if they are free now.
        // SAFETY: the command takes a number.
        let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        let metadata = file.metadata()?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        let file = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) }.into());
        Ok(TextFile::File { path, file, device: metadata.dev(), inode: metadata.ino() })
    }

    /// Writes the text by one system call, if the system takes it in one.
    pub(crate) fn write(&self, text: &[u8]) -> Result<()> {
        let _unnoticed = Unnoticed::new();
        match self {
            TextFile::Stream(number) => {
                // SAFETY: it is written to and not closed; if the program has closed it, writing fails.
                let file = ManuallyDrop::new(unsafe { File::from_raw_fd(*number) });
                write_without_signals(&file, text)
            }
            TextFile::File { path, file, device, inode } => {
                let is_ours = |metadata: &Metadata| (metadata.dev(), metadata.ino()) == (*device, *inode);
                if file.metadata().is_ok_and(|metadata| is_ours(&metadata)) {
                    return write_without_signals(file, text);
                }
                write_without_signals(&open(path)?, text)
            }
        }
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o666).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Writes. A pipe without a reader and a file that may not grow are errors, and no signals.
fn write_without_signals(mut file: &File, text: &[u8]) -> Result<()> {
    let is = |kind| move |written: &Result<()>| written.as_ref().is_err_and(|error| error.kind() == kind);
    let write = || without_signal(libc::SIGPIPE, || file.write_all(text), is(ErrorKind::BrokenPipe));
    without_signal(libc::SIGXFSZ, write, is(ErrorKind::FileTooLarge))
}
