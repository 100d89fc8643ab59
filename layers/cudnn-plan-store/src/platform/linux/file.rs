//! Files.

use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use super::super::Facts;
use super::unnoticed::without_signal;
use crate::name;
use crate::problem::{Cause, ProblemKind};

/// Any permission to write but the owner's.
pub(super) const WRITABLE_BY_OTHERS: u32 = 0o022;

/// An open file.
pub(crate) struct File(std::fs::File);

impl File {
    pub(super) fn new(file: std::fs::File) -> Self {
        File(file)
    }

    /// A file that nobody but this user (or root, if allowed) can have written.
    pub(super) fn trusted(file: std::fs::File, may_be_of_root: bool) -> std::result::Result<Self, Cause> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(ProblemKind::NotAFile.into());
        }
        let (owner, user) = (metadata.uid(), user());
        if owner != user && !(may_be_of_root && owner == 0) {
            return Err(ProblemKind::NotOwned { owner, user }.into());
        }
        if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(ProblemKind::WritableByOthers { mode: metadata.mode() & 0o7777 }.into());
        }
        Ok(File(file))
    }

    pub(crate) fn facts(&self) -> Result<Facts> {
        let metadata = self.0.metadata()?;
        Ok(Facts { size: metadata.size(), modified: metadata.modified().ok() })
    }

    /// Bytes of the file. `None` if it ends before.
    pub(crate) fn read(&self, at: u64, length: u64) -> Result<Option<Vec<u8>>> {
        let length = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
        bytes.resize(length, 0);
        match self.0.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends. A file that may not grow is an error, and no signal.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<()> {
        let is_raised =
            |written: &Result<()>| written.as_ref().is_err_and(|error: &Error| error.kind() == ErrorKind::FileTooLarge);
        without_signal(libc::SIGXFSZ, || (&self.0).write_all(bytes), is_raised)
    }

    pub(crate) fn set_modified(&self, time: SystemTime) -> Result<()> {
        self.0.set_modified(time)
    }
}

/// The effective user.
pub(super) fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Opens a pack: a file of this user or of root.
pub(crate) fn open_pack(path: &Path) -> std::result::Result<File, Cause> {
    // Some devices act when they are opened.
    if !std::fs::metadata(path)?.is_file() {
        return Err(ProblemKind::NotAFile.into());
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::trusted(OpenOptions::new().read(true).custom_flags(flags).open(path)?, true)
}

/// Writes a file under another name in its directory, then gives it its name.
pub(crate) fn replace_file<'a>(path: &Path, pieces: impl Iterator<Item = &'a [u8]>) -> std::result::Result<(), Cause> {
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(ProblemKind::NotAFile.into());
    }
    let temporary = name::beside(path);
    // Whoever opens it before its rights are set could write to it afterwards.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    // Other users run the programs of a container image.
    let readable = file.set_permissions(Permissions::from_mode(0o644));
    let file = File::new(file);
    let mut pieces = pieces;
    let written = readable
        .and_then(|()| pieces.try_for_each(|piece| file.write(piece)))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    Ok(written?)
}
