//! A file descriptor that survives a program that closes all descriptors.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

/// A file that is open for appending. Shared by all threads, and never closed on drop: other threads may use it.
///
/// A program that closes all descriptors may later get another file under the same number. Therefore each use begins
/// with a check that the number still is this file's, and a file whose descriptor was closed is opened again by its
/// path.
pub(crate) struct Descriptor {
    number: AtomicI32,
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Only this process writes to the file. Such a file is locked, and its position is a mark: `pwrite` to a file that
    /// was opened for appending does not move the position. `lseek` is faster than `fstat`, after which Linux records
    /// the time of the next write precisely, and that takes longer than the write.
    is_own: bool,
}

impl Descriptor {
    /// Takes over a file that was opened for appending at this absolute path.
    ///
    /// # Errors
    /// `WouldBlock` if the file was to be this process's own, and another process has locked it.
    pub(crate) fn new(file: &File, path: PathBuf, is_own: bool) -> Result<Self> {
        if is_own {
            // A file system without locks leaves the file as it is.
            flock(file).or_else(|error| if error.kind() == ErrorKind::WouldBlock { Err(error) } else { Ok(()) })?;
        }
        let metadata = file.metadata()?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let mut descriptor = Descriptor { number: AtomicI32::new(-1), path, device, inode, is_own };
        *descriptor.number.get_mut() = descriptor.duplicate(file)?;
        Ok(descriptor)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this path is a name of the file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|metadata| self.is_this(&metadata))
    }

    /// Passes on the file, opened again if the program has closed the descriptor.
    #[inline]
    pub(crate) fn with<T>(&self, work: impl Fn(&File) -> Result<T>) -> Result<T> {
        /// Attempts while other threads open the file again: each uses the old number for a moment, and closes it.
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
        // SAFETY: the file is not closed by this value; a number that was closed meanwhile gives errors.
        let file = |number| ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        let open = file(number);
        if self.has(&open) { work(&open) } else { work(&file(self.reopen(number)?)) }
    }

    fn is_this(&self, metadata: &Metadata) -> bool {
        (metadata.dev(), metadata.ino()) == (self.device, self.inode)
    }

    /// Whether this descriptor is the file's.
    #[inline]
    fn has(&self, mut file: &File) -> bool {
        if self.is_own {
            return file.stream_position().is_ok_and(|position| position == self.mark());
        }
        file.metadata().is_ok_and(|metadata| self.is_this(&metadata))
    }

    /// A position that the descriptors of other files do not have, and that all file systems allow.
    fn mark(&self) -> u64 {
        const START: u64 = 1 << 30;
        START + self.inode % START
    }

    #[cold]
    fn reopen(&self, closed: RawFd) -> Result<RawFd> {
        // A pipe without a reader must not make the program wait.
        let file = OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
        if !self.is_this(&file.metadata()?) {
            return Err(Error::new(ErrorKind::NotFound, "the program closed it, and its name is another file's now"));
        }
        if self.is_own {
            // It is this process's file. A thread that opens it at the same time may have the lock, or a forked child.
            let _ = flock(&file);
        }
        let number = self.duplicate(&file)?;
        match self.number.compare_exchange(closed, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(number),
            Err(of_another_thread) => {
                // SAFETY: the descriptor is new, and nothing else knows it.
                drop(unsafe { OwnedFd::from_raw_fd(number) });
                Ok(of_another_thread)
            }
        }
    }

    /// Prepares the file and returns another number for it: none of the first three, which belong to others even if
    /// they are free now.
    fn duplicate(&self, mut file: &File) -> Result<RawFd> {
        if self.is_own {
            file.seek(SeekFrom::Start(self.mark()))?;
            file.stream_position()?;
        }
        // SAFETY: the command takes a number.
        let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if number < 0 { Err(Error::last_os_error()) } else { Ok(number) }
    }

    /// Closes it. Only a process in which no other thread uses it may do so.
    pub(crate) fn close(&self) {
        let number = self.number.load(Ordering::Acquire);
        // SAFETY: as in `with`.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
        if self.has(&file) {
            drop(ManuallyDrop::into_inner(file));
        }
    }
}

/// Locks a file for this process, if no other process has locked it.
pub(crate) fn flock(file: &File) -> Result<()> {
    // SAFETY: the call takes numbers.
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
        // SAFETY: the number becomes that of the other file, as in a program that has closed all descriptors.
        assert_eq!(unsafe { libc::dup2(other_file.as_raw_fd(), number) }, number);
        write().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap()), (b"xx".to_vec(), Vec::new()));
        std::fs::remove_file(&path).unwrap();
        let new = descriptor.number.load(Ordering::Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(other_file.as_raw_fd(), new) }, new);
        assert_eq!(write().unwrap_err().kind(), ErrorKind::NotFound);
    }
}
