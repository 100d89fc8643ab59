//! A file of records. Each record is one `pwrite` that appends it, so the kernel has the whole record before the call
//! returns, whatever ends the process afterwards.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cancel::ThreadStateGuard;
use super::descriptor::{Descriptor, flock};
use super::signals::{discard_signal, with_all_signals_blocked};

/// A descriptor that appends does so wherever it is told to write. If the program has closed it in this moment, and opened a
/// file of its own under the number, nothing may be written there: no file system has files of that size.
const ANYWHERE: u64 = 1 << 62;

/// An open file, which is locked (`flock`) to tell other processes that it is in use.
pub struct AppendFile(Descriptor);

impl AppendFile {
    /// Creates a file that does not exist yet, at an absolute path. `None` if another process has replaced it in the
    /// moment before it was locked.
    ///
    /// # Errors
    /// The system's.
    pub fn create_new(path: &Path) -> Result<Option<Self>> {
        let _guard = ThreadStateGuard::new();
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        match Descriptor::new(&file, path.to_owned(), true) {
            Ok(descriptor) if descriptor.is_at(path) => Ok(Some(AppendFile(descriptor))),
            Ok(descriptor) => {
                descriptor.close();
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a file so that its name is free. `false` if a process is writing to it.
    ///
    /// # Errors
    /// The system's, or that the file is of another kind or has other content.
    pub fn remove(path: &Path, may_be_removed: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let _guard = ThreadStateGuard::new();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => return Err(Error::other("it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            _ => {}
        }
        // NFS locks only files that are open for writing.
        let file = options.clone().write(true).open(path).or_else(|_| options.open(path))?;
        let mut start = [0; 64];
        let length = file.read_at(&mut start, 0)?;
        if !may_be_removed(start.get(..length).unwrap_or_default()) {
            return Err(Error::from(ErrorKind::AlreadyExists));
        }
        if flock(&file).is_err() {
            return Ok(false);
        }
        // While this process has the lock, no other process takes the name from the file.
        let (locked, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            std::fs::remove_file(path)?;
        }
        Ok(true)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Appends the record with one write. An error leaves an incomplete record if `is_torn` is set.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, record: &[u8], is_torn: &AtomicBool) -> Result<()> {
        let written = self.0.with(|file| {
            let length = file.write_at(record, ANYWHERE)?;
            let rest = record.get(length..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            // The next attempt tells why there was no room.
            is_torn.store(true, Ordering::SeqCst);
            file.write_all_at(rest, ANYWHERE)?;
            is_torn.store(false, Ordering::SeqCst);
            Ok(())
        });
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::FileTooLarge) {
            // A file that may not grow is an error, and no signal.
            discard_signal(libc::SIGXFSZ);
        }
        written
    }

    /// Closes what a child process has inherited from its parent.
    pub fn close(&self) {
        let _guard = ThreadStateGuard::new();
        self.0.close();
    }
}

/// Does work in which no handler of the program runs: it could append a record of its own, or leave by `siglongjmp`.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _guard = ThreadStateGuard::new();
    with_all_signals_blocked(work)
}
