//! Appends records to a file with one `pwrite` call per record, so that records survive a crash of the process.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cancel::ThreadStateGuard;
use super::descriptor::{Descriptor, flock};
use super::signals::{discard_signal, with_all_signals_blocked};

/// An offset that no file system supports. A descriptor in append mode ignores it. However, if the program has just
/// closed the descriptor and opened another file under the same number, the write fails and cannot damage that file.
const ANYWHERE: u64 = 1 << 62;

/// An open file with a lock (`flock`), so that other processes detect that the file is in use.
pub struct AppendFile(Descriptor);

impl AppendFile {
    /// Creates a new file at an absolute path. Returns `None` if another process replaces it before it is locked.
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

    /// Removes a file to reuse the name. Returns `false` if a process is still writing to the file.
    ///
    /// # Errors
    /// Returns an error if a system call fails, the path is not a file, or `may_be_removed` rejects the content.
    pub fn remove(path: &Path, may_be_removed: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        let _guard = ThreadStateGuard::new();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => return Err(Error::other("it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            _ => {}
        }
        // NFS supports locks only for files that are open for writing.
        let file = options.clone().write(true).open(path).or_else(|_| options.open(path))?;
        let mut start = [0; 64];
        let length = file.read_at(&mut start, 0)?;
        if !may_be_removed(start.get(..length).unwrap_or_default()) {
            return Err(Error::from(ErrorKind::AlreadyExists));
        }
        if flock(&file).is_err() {
            return Ok(false);
        }
        // While this process holds the lock, other processes do not rename or replace the file.
        let (locked, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            std::fs::remove_file(path)?;
        }
        Ok(true)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Appends a record with a single write. Sets `is_torn` if a part of the record was written before an error.
    pub fn append(&self, record: &[u8], is_torn: &AtomicBool) -> Result<()> {
        let written = self.0.with(|file| {
            let length = file.write_at(record, ANYWHERE)?;
            let rest = record.get(length..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            // Retry so that the error contains the reason.
            is_torn.store(true, Ordering::SeqCst);
            file.write_all_at(rest, ANYWHERE)?;
            is_torn.store(false, Ordering::SeqCst);
            Ok(())
        });
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::FileTooLarge) {
            // An exceeded file size limit must be an error and not a signal.
            discard_signal(libc::SIGXFSZ);
        }
        written
    }

    /// Closes the file that a child process inherited from its parent.
    pub fn close(&self) {
        let _guard = ThreadStateGuard::new();
        self.0.close();
    }
}

/// Runs `work` with the program's signal handlers blocked, because they could append a record or `siglongjmp`.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _guard = ThreadStateGuard::new();
    with_all_signals_blocked(work)
}
