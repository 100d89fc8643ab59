//! Saves the files that a step can change, so that the next `fix` can undo an interrupted step.
//!
//! The snapshot is a directory in the environment. It is valid only while it contains the journal, which is written
//! after all files have been saved. After the step the journal is removed first, then the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cudnn_os::files::{lock_dir, symlink, sync_dir};
use cudnn_os::rights::{belongs_to_user, can_write, create_private_dir};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::restore;
use super::scope::{Packages, Scope, is_dir};
use crate::escape::Printable;
use crate::packages::PackageChange;

/// The name of the snapshot directory in the root of the environment.
pub(super) const NAME: &str = ".cudnn-doctor-undo";
/// The entries of a snapshot directory.
pub(super) const JOURNAL: &str = "journal.json";
pub(super) const FILES: &str = "files";
const LOCK: &str = "lock";

/// The step for which files were saved. All paths are relative to the root of the environment.
#[derive(Deserialize, Serialize)]
pub(super) struct Journal {
    /// A short description of the step.
    pub(super) step: String,
    pub(super) packages: Packages,
    pub(super) package_dirs: Vec<String>,
    /// For each directory to which the installer may add files, the names it contained before the step.
    pub(super) dirs: BTreeMap<String, BTreeSet<String>>,
}

/// The saved files of a step that is being executed.
pub(super) struct Snapshot {
    root: PathBuf,
    journal: Journal,
    /// The lock on the snapshot, which is also inherited by the installer.
    lock: Option<File>,
}

impl Snapshot {
    /// Saves the files that this change can affect. Returns `None` if no snapshot is needed, because the change does
    /// not affect an existing Python environment or requires root.
    ///
    /// # Errors
    /// The reason why saving the files failed.
    pub(super) fn take(change: &PackageChange, step: &str) -> std::result::Result<Option<Snapshot>, String> {
        let Some(scope) = Scope::of(change).filter(|scope| can_write(&scope.root)) else { return Ok(None) };
        let root = scope.root.clone();
        Snapshot::save(scope, step)
            .map(Some)
            .map_err(|error| format!("cannot save the files of {} before the change: {error}", root.printable()))
    }

    fn save(scope: Scope, step: &str) -> Result<Snapshot> {
        clear_incomplete(&scope.root)?;
        let dir = scope.root.join(NAME);
        create_private_dir(&dir)?;
        save_into(&dir, scope, step).inspect_err(|_| drop(std::fs::remove_dir_all(&dir)))
    }

    /// Returns an empty file as the installer's stdin. Because the file carries the lock, the snapshot stays locked
    /// until the installer exits.
    pub(super) fn input(&self) -> Option<Stdio> {
        self.lock.as_ref()?.try_clone().ok().map(Stdio::from)
    }

    /// Removes the snapshot after a successful step.
    ///
    /// # Errors
    /// An error of the operating system. The next `fix` would then undo the step.
    pub(super) fn discard(self) -> Result<()> {
        remove(&self.root.join(NAME))
    }

    /// Undoes the step.
    ///
    /// # Errors
    /// An error of the operating system. The next `fix` tries again.
    pub(super) fn restore(self) -> Result<()> {
        restore::restore(&self.root, &self.journal)?;
        self.discard()
    }
}

fn save_into(dir: &Path, scope: Scope, step: &str) -> Result<Snapshot> {
    File::create_new(dir.join(LOCK))?;
    let lock = lock(dir)?;
    let files = dir.join(FILES);
    create_private_dir(&files)?;
    let Scope { root, package_dirs, packages, files: touched, dirs } = scope;
    for file in &touched {
        let saved = files.join(file.strip_prefix(&root).map_err(Error::other)?);
        saved.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        link_or_copy(file, &saved)?;
    }
    let names = |dir: &PathBuf| Ok((relative(&root, dir)?, names_in(dir)?));
    let journal = Journal {
        step: step.to_owned(),
        packages,
        package_dirs: package_dirs.iter().map(|dir| relative(&root, dir)).collect::<Result<_>>()?,
        dirs: dirs.iter().map(names).collect::<Result<_>>()?,
    };
    let mut file = NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut file, &journal)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist_noclobber(dir.join(JOURNAL))?;
    sync_dir(dir);
    Ok(Snapshot { root, journal, lock })
}

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

/// Returns the path relative to the root, in the form used by the journal.
fn relative(root: &Path, path: &Path) -> Result<String> {
    let below = path.strip_prefix(root).map_err(Error::other)?.to_str();
    below.map(str::to_owned).ok_or_else(|| Error::other(format!("the name {} is not UTF-8", path.printable())))
}

/// Returns a file name in the form used by the journal.
pub(super) fn name(file: &OsStr) -> String {
    file.to_string_lossy().into_owned()
}

fn names_in(dir: &Path) -> Result<BTreeSet<String>> {
    std::fs::read_dir(dir)?.map(|entry| Ok(name(&entry?.file_name()))).collect()
}

/// Locks a snapshot. Returns `None` if locks are not supported here.
///
/// # Errors
/// Another process holds the lock, or the operating system reports an error.
pub(super) fn lock(dir: &Path) -> Result<Option<File>> {
    lock_dir(&dir.join(LOCK)).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::other("another `fix`, or the installer that it has started, is still running"),
        _ => error,
    })
}

/// Returns whether this directory was created by a doctor of the current user.
pub(super) fn is_own(dir: &Path) -> bool {
    is_dir(dir) && belongs_to_user(dir)
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
    if !is_own(&dir) {
        return Err(Error::other(format!("{} is not a directory of this user", dir.printable())));
    }
    if dir.join(JOURNAL).symlink_metadata().is_ok() {
        let text = format!("an earlier step was interrupted: run `fix` again, or remove {} first", dir.printable());
        return Err(Error::other(text));
    }
    match lock(&dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => std::fs::remove_dir_all(dir),
    }
}

/// Removes a snapshot. Deleting the journal first makes it invalid.
pub(super) fn remove(dir: &Path) -> Result<()> {
    std::fs::remove_file(dir.join(JOURNAL))?;
    // If this fails, the next `fix` removes the remaining files.
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}
