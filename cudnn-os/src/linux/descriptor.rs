//! A file descriptor that recovers if the program closes all descriptors.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

/// A file that is open for appending. All threads share it, and dropping it does not close the descriptor, because
/// other threads may still use it.
///
/// A program that closes all descriptors may later get another file under the same number. Before each use, the number
/// is checked, and if necessary the file is opened again by path.
pub(crate) struct Descriptor {
    number: AtomicI32,
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Whether only this process writes to the file. The file is then locked, and the file position serves as a mark,
    /// because `pwrite` in append mode does not move it. `lseek` is cheaper than `fstat`, which makes Linux record the
    /// time of the next write precisely. Recording takes longer than the write itself.
    is_own: bool,
}

impl Descriptor {
    /// Takes ownership of a file that was opened for appending at this absolute path. Returns `WouldBlock` if `is_own`
    /// is set and another process has locked the file.
    pub(crate) fn new(file: &File, path: PathBuf, is_own: bool) -> Result<Self> {
        if is_own {
            // File systems without lock support are accepted.
            flock(file).or_else(|error| if error.kind() == ErrorKind::WouldBlock { Err(error) } else { Ok(()) })?;
        }
        let metadata = file.metadata()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let mut descriptor = Descriptor { number: AtomicI32::new(-1), path, device, inode, is_own };
        *descriptor.number.get_mut() = descriptor.duplicate(file)?;
        Ok(descriptor)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_at(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|metadata| self.is_this(&metadata))
    }

    /// Runs `work` with the file, and first reopens the file if the program has closed the descriptor.
    #[inline]
    pub(crate) fn with<T>(&self, work: impl Fn(&File) -> Result<T>) -> Result<T> {
        /// The number of attempts while other threads reopen the file, which briefly use the old number.
        const ATTEMPTS: usize = 8;
        let mut result = self.try_with(&work);
        for _ in 1..ATTEMPTS {
            match &result {
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => result = self.try_with(&work),
                _ => break,
            }
        }
        result
    }

    #[inline]
    fn try_with<T>(&self, work: impl FnOnce(&File) -> Result<T>) -> Result<T> {
        let number = self.number.load(Ordering::Acquire);
        // SAFETY: `ManuallyDrop` leaves the descriptor open. If the number was closed in the meantime, calls fail with
        // an error.
        let file = |number| ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let open = file(number);
        if self.has(&open) { work(&open) } else { work(&file(self.reopen(number)?)) }
    }

    fn is_this(&self, metadata: &Metadata) -> bool {
        (metadata.dev(), metadata.ino()) == (self.device, self.inode)
    }

    #[inline]
    fn has(&self, mut file: &File) -> bool {
        if self.is_own {
            return file.stream_position().is_ok_and(|position| position == self.mark());
        }
        file.metadata().is_ok_and(|metadata| self.is_this(&metadata))
    }

    /// Returns an unusual file position that every file system allows.
    fn mark(&self) -> u64 {
        const START: u64 = 1 << 30;
        START + self.inode % START
    }

    #[cold]
    fn reopen(&self, closed: RawFd) -> Result<RawFd> {
        // Opening a pipe without a reader must not block the program.
        let file = OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
        if !self.is_this(&file.metadata()?) {
            return Err(Error::new(ErrorKind::NotFound, "the program closed it, and the path is a different file now"));
        }
        if self.is_own {
            // This process owns the file. A forked child, or another thread that reopens it, may already hold the lock.
            let _ = flock(&file);
        }
        let number = self.duplicate(&file)?;
        match self.number.compare_exchange(closed, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(number),
            Err(stored_by_another_thread) => {
                // SAFETY: the descriptor is new and unshared.
                drop(unsafe { OwnedFd::from_raw_fd(number) });
                Ok(stored_by_another_thread)
            }
        }
    }

    /// Prepares the file and returns a duplicate descriptor. Skips the numbers 0 to 2, which are reserved for the
    /// standard streams even if they are free.
    fn duplicate(&self, mut file: &File) -> Result<RawFd> {
        if self.is_own {
            file.seek(SeekFrom::Start(self.mark()))?;
            file.stream_position()?;
        }
        // SAFETY: the argument is a plain integer.
        let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if number < 0 { Err(Error::last_os_error()) } else { Ok(number) }
    }

    /// Closes the descriptor, which no other thread of the process may use.
    pub(crate) fn close(&self) {
        let number = self.number.load(Ordering::Acquire);
        // SAFETY: `ManuallyDrop` leaves the descriptor open, as in `with`.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        if self.has(&file) {
            drop(ManuallyDrop::into_inner(file));
        }
    }
}

pub(crate) fn flock(file: &File) -> Result<()> {
    // SAFETY: the arguments are plain integers.
    let locked = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if locked == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no dup2")]
    fn a_file_that_the_program_closed_is_opened_again_and_no_other_is_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("log"), dir.path().join("other"));
        let open = |path: &Path| OpenOptions::new().append(true).create(true).open(path).unwrap();
        let descriptor = Descriptor::new(&open(&path), path.clone(), false).unwrap();
        let write = || descriptor.with(|mut file| file.write_all(b"x"));
        write().unwrap();
        let other_file = open(&other);
        let number = descriptor.number.load(Ordering::Relaxed);
        // SAFETY: the descriptor is replaced on purpose, as in a program that closes all descriptors.
        assert_eq!(unsafe { libc::dup2(other_file.as_raw_fd(), number) }, number);
        write().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap()), (b"xx".to_vec(), Vec::new()));
        std::fs::remove_file(&path).unwrap();
        let new = descriptor.number.load(Ordering::Relaxed);
        // SAFETY: the descriptor is replaced on purpose, as in a program that closes all descriptors.
        assert_eq!(unsafe { libc::dup2(other_file.as_raw_fd(), new) }, new);
        assert_eq!(write().unwrap_err().kind(), ErrorKind::NotFound);
    }
}
