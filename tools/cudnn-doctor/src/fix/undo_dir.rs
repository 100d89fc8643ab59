//! Manages the directory of a snapshot: its names, its lock and its removal.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use cudnn_os::files::{file_id, file_id_of, lock_file, symlink};
use cudnn_os::rights::is_private_dir;

use crate::escape::Printable;

/// The name of the snapshot directory in the root of the environment.
pub(super) const NAME: &str = ".cudnn-doctor-undo";
/// The entries of a snapshot directory.
pub(super) const JOURNAL: &str = "journal.json";
pub(super) const FILES: &str = "files";
pub(super) const LOCK: &str = "lock";

/// Saves a file under a second name.
///
/// A hard link shares its contents with the original, so a program that writes to the original in place would also
/// change the snapshot. pip and uv never do this: they remove or rename a file and create a new one.
pub(super) fn link_or_copy(from: &Path, to: &Path) -> Result<()> {
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let metadata = from.symlink_metadata()?;
    if metadata.is_symlink() {
        return symlink(&std::fs::read_link(from)?, to);
    }
    if !metadata.is_file() {
        return Err(Error::other(format!("{} is not a regular file", from.printable())));
    }
    std::fs::copy(from, to)?;
    // Setting the time of a read-only file fails, which is harmless.
    let _ = File::options().write(true).open(to).and_then(|file| file.set_modified(metadata.modified()?));
    Ok(())
}

/// Returns a file name in the form used by the journal.
pub(super) fn name(file: &OsStr) -> String {
    file.to_string_lossy().into_owned()
}

pub(super) fn names_in(dir: &Path) -> Result<BTreeSet<String>> {
    std::fs::read_dir(dir)?.map(|entry| Ok(name(&entry?.file_name()))).collect()
}

/// Locks a snapshot.
///
/// # Errors
/// `WouldBlock` if another process holds the lock, `NotFound` if the directory was removed, or the reason why it cannot
/// be locked.
pub(super) fn lock(dir: &Path) -> Result<File> {
    if !is_private_dir(dir) {
        dir.symlink_metadata()?;
        return Err(not_private(dir));
    }
    let path = dir.join(LOCK);
    // Opening a named pipe would block. No other user can replace the file, because the directory is private.
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Error::other(format!("{} is not a regular file: remove {}", path.printable(), dir.printable())));
    }
    // NFS requires write access.
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
    let is_running =
        || Error::new(ErrorKind::WouldBlock, "another `fix`, or the installer that it has started, is still running");
    lock_file(&file).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => is_running(),
        _ => Error::other(format!(
            "cannot lock {}: {error}; without a lock, two installers could run at the same time",
            path.printable()
        )),
    })?;
    // Another doctor may have removed or replaced the file before it was locked.
    match file_id_of(&file) {
        Some(id) if file_id(&path).as_ref() == Some(&id) => Ok(file),
        _ => Err(is_running()),
    }
}

/// Returns whether another process holds the lock of this snapshot.
pub(super) fn is_locked(dir: &Path) -> bool {
    let open = || File::options().read(true).write(true).open(dir.join(LOCK));
    let is_blocked = |file: File| lock_file(&file).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    let is_file = || dir.join(LOCK).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    is_private_dir(dir) && is_file() && open().is_ok_and(is_blocked)
}

fn not_private(dir: &Path) -> Error {
    let dir = dir.printable();
    Error::other(format!("{dir} is not a directory of this user, or other users can access it"))
}

/// Removes an incomplete or obsolete snapshot that a killed doctor left in the environment at this root.
///
/// # Errors
/// The snapshot is still valid, belongs to another user, or is locked.
pub(super) fn clear_incomplete(root: &Path) -> Result<()> {
    let dir = root.join(NAME);
    if dir.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    if !is_private_dir(&dir) {
        return Err(not_private(&dir));
    }
    check_no_journal(&dir)?;
    let lock = lock(&dir)?;
    check_no_journal(&dir)?;
    std::fs::remove_dir_all(dir)?;
    drop(lock);
    Ok(())
}

pub(super) fn check_no_journal(dir: &Path) -> Result<()> {
    if dir.join(JOURNAL).symlink_metadata().is_ok() {
        let text = format!("an earlier step was interrupted: run `fix` again, or remove {} first", dir.printable());
        return Err(Error::other(text));
    }
    Ok(())
}

/// Removes a snapshot. Deleting the journal first makes it invalid.
pub(super) fn remove(dir: &Path) -> Result<()> {
    std::fs::remove_file(dir.join(JOURNAL))?;
    // If this fails, the next `fix` removes the remaining files.
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}
