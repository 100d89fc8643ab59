//! Opens a directory that only this user can modify, and the files in it. All operations are relative to an open
//! descriptor, so that the checked directory is used even if its path changes.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::files::{GROUP_WRITES, OTHERS_WRITE};
use super::signals::without_signal;
use crate::trusted_files::{File, FileStat, TrustError, Untrusted};

/// Does not follow links or wait for the writer of a pipe.
const READ: libc::c_int = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// An open directory that only this user can modify.
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens a directory that belongs to this user and is not writable by others.
    ///
    /// # Errors
    /// Returns a [`TrustError`] if the directory is untrusted or opening it fails.
    pub fn open(path: &Path) -> std::result::Result<Self, TrustError> {
        Self::open_with(path, 0)
    }

    fn open_with(path: &Path, flags: libc::c_int) -> std::result::Result<Self, TrustError> {
        let flags = libc::O_DIRECTORY | libc::O_NONBLOCK | flags;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        check_owner(&file.metadata()?, false)?;
        Ok(Directory(file.into()))
    }

    /// Opens a directory, and creates it and missing parents with access only for this user. Root does not create
    /// directories in another user's directory, because that user could not use them.
    ///
    /// # Errors
    /// Returns a [`TrustError`] if the directory is untrusted, or if creating or opening it fails.
    pub fn create(path: &Path) -> std::result::Result<Self, TrustError> {
        match Self::open(path) {
            Err(TrustError::System(error)) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        let user = user();
        let parent = path.ancestors().skip(1).find_map(|parent| std::fs::metadata(parent).ok());
        if let Some(owner) = parent.map(|parent| parent.uid()).filter(|owner| user == 0 && *owner != 0) {
            return Err(Untrusted::NotOwned { owner, user }.into());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        Self::open(path)
    }

    /// Opens a directory but no link, and creates a missing one with access only for this user.
    ///
    /// # Errors
    /// Returns a [`TrustError`] if the directory is untrusted, or if creating or opening it fails.
    pub fn create_private(path: &Path) -> std::result::Result<Self, TrustError> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
            _ => Self::open_private(path),
        }
    }

    /// Opens a directory like [`open`](Directory::open), without following a link at its name.
    ///
    /// # Errors
    /// Returns a [`TrustError`] if the directory is untrusted or opening it fails.
    pub fn open_private(path: &Path) -> std::result::Result<Self, TrustError> {
        Self::open_with(path, libc::O_NOFOLLOW)
    }

    /// Opens a regular file of this user that others cannot modify.
    ///
    /// # Errors
    /// Returns a [`TrustError`] if the file is untrusted or opening it fails.
    pub fn open_file(&self, name: &str) -> std::result::Result<File, TrustError> {
        let file = match self.open_at(name, READ) {
            // The file is a symbolic link or a socket.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => {
                return Err(Untrusted::NotAFile.into());
            }
            opened => opened?,
        };
        File::trusted(file, false)
    }

    /// Creates a file that only this user can access.
    pub fn create_file(&self, name: &str) -> Result<File> {
        self.open_at(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW).map(File::new)
    }

    fn open_at(&self, name: &str, flags: libc::c_int) -> Result<std::fs::File> {
        let name = CString::new(name)?;
        loop {
            let mode: libc::mode_t = 0o600;
            // SAFETY: the name is NUL-terminated.
            let number = unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC, mode) };
            if number >= 0 {
                // SAFETY: the descriptor is new, and this value becomes the only owner.
                return Ok(unsafe { OwnedFd::from_raw_fd(number) }.into());
            }
            let error = Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Renames a file, replacing an existing file.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to, directory) = (CString::new(from)?, CString::new(to)?, self.0.as_raw_fd());
        // SAFETY: the names are NUL-terminated.
        check(unsafe { libc::renameat(directory, from.as_ptr(), directory, to.as_ptr()) })
    }

    /// Removes a file or an empty directory.
    pub fn remove(&self, name: &str) -> Result<()> {
        let removed = self.remove_file(name);
        let name = CString::new(name)?;
        if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::IsADirectory) {
            // SAFETY: the name is NUL-terminated.
            return check(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) });
        }
        removed
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// Returns an error if the system call fails, for example because the name belongs to a directory.
    pub fn remove_file(&self, name: &str) -> Result<()> {
        let name = CString::new(name)?;
        // SAFETY: the name is NUL-terminated.
        check(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), 0) })
    }

    /// Returns the size and modification time of a file.
    pub fn stat(&self, name: &str) -> Result<FileStat> {
        let name = CString::new(name)?;
        let mut metadata = MaybeUninit::<libc::stat>::uninit();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the name is NUL-terminated, and the output pointer is valid.
        check(unsafe { libc::fstatat(self.0.as_raw_fd(), name.as_ptr(), metadata.as_mut_ptr(), flags) })?;
        // SAFETY: the call succeeded, so the structure is initialized.
        let metadata = unsafe { metadata.assume_init() };
        let since_1970 = Duration::new(
            u64::try_from(metadata.st_mtime).unwrap_or_default(),
            u32::try_from(metadata.st_mtime_nsec).unwrap_or_default(),
        );
        let modified = SystemTime::UNIX_EPOCH.checked_add(since_1970);
        Ok(FileStat { size: u64::try_from(metadata.st_size).unwrap_or_default(), modified })
    }

    /// Marks a file as used at this time. On a read-only file system, the old time remains.
    pub fn set_modified(&self, name: &str, time: SystemTime) {
        let _ = self.open_at(name, READ).and_then(|file| file.set_modified(time));
    }

    /// Returns the names of all files, except names that are not valid UTF-8.
    pub fn names(&self) -> Result<Vec<String>> {
        // Use a separate descriptor, because reading moves the position.
        let number = self.open_at(".", libc::O_RDONLY | libc::O_DIRECTORY)?.into_raw_fd();
        // SAFETY: the descriptor is new, and on success the stream owns it.
        let stream = unsafe { libc::fdopendir(number) };
        if stream.is_null() {
            let error = Error::last_os_error();
            // SAFETY: the call failed, so this value is the only owner.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
            return Err(error);
        }
        let mut names = Vec::new();
        let ended = loop {
            // SAFETY: `errno` belongs to this thread. Clearing it first distinguishes an error from the end of the
            // directory.
            unsafe { *libc::__errno_location() = 0 };
            // SAFETY: the stream is open and used only by this thread.
            let entry = unsafe { libc::readdir(stream) };
            if entry.is_null() {
                let error = Error::last_os_error();
                break if error.raw_os_error() == Some(0) { Ok(()) } else { Err(error) };
            }
            // SAFETY: the entry is valid until the next call, and the name is NUL-terminated.
            let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) };
            if name != c"." && name != c".." {
                names.extend(name.to_str().map(str::to_owned));
            }
        };
        // SAFETY: the stream is open, and is not used afterwards.
        unsafe { libc::closedir(stream) };
        ended.map(|()| names)
    }
}

/// Rejects files that others can modify, or that belong to another user. `may_be_of_root` accepts root.
pub(crate) fn check_owner(metadata: &Metadata, may_be_of_root: bool) -> std::result::Result<(), TrustError> {
    let (owner, user) = (metadata.uid(), user());
    if owner != user && !(may_be_of_root && owner == 0) {
        return Err(Untrusted::NotOwned { owner, user }.into());
    }
    if metadata.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0 {
        return Err(Untrusted::WritableByOthers { mode: metadata.mode() & 0o7777 }.into());
    }
    Ok(())
}

pub(crate) fn user() -> u32 {
    // SAFETY: the call involves no pointers and always succeeds.
    unsafe { libc::geteuid() }
}

/// Creates a file that only this user can access. Restricting it later would let others open it before.
///
/// # Errors
/// Returns an error if the file exists, or if the system call fails.
pub fn create_new(path: &Path) -> Result<std::fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a file readable for all users, because programs in a container image may run as different users.
///
/// # Errors
/// Returns an error if the system call fails.
pub fn make_readable(file: &std::fs::File) -> Result<()> {
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Writes bytes. An exceeded file size limit is an error and not a signal.
pub(crate) fn write_all(mut file: &std::fs::File, bytes: &[u8]) -> Result<()> {
    let is_raised = |written: &Result<()>| written.as_ref().is_err_and(|error| error.kind() == ErrorKind::FileTooLarge);
    without_signal(libc::SIGXFSZ, || file.write_all(bytes), is_raised)
}

fn check(returned: libc::c_int) -> Result<()> {
    if returned == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
