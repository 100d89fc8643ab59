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

use cudnn_os::files::{FileId, file_id, file_id_of, is_on_overlay, lock_file, symlink, sync_dir};
use cudnn_os::rights::{can_write, create_private_dir, is_private_dir};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::scope::{Breadth, Packages, Scope, root_of};
use super::{journal, restore};
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
    /// The same for the directories of programs. Files of other packages in them are not saved.
    pub(super) program_dirs: BTreeMap<String, BTreeSet<String>>,
    /// The saved files, with the targets of symbolic links.
    pub(super) files: BTreeMap<String, Option<String>>,
    /// Identifies the root directory, because a copy of an environment was not interrupted.
    pub(super) root_id: Option<FileId>,
}

/// The saved files of a step that is being executed.
pub(super) struct Snapshot {
    root: PathBuf,
    journal: Journal,
    /// The lock on the snapshot, which is also inherited by the installer.
    lock: File,
}

impl Snapshot {
    /// Saves the files that this change can affect. Returns `None` if no snapshot is needed, because the change does
    /// not affect an existing Python environment or requires root.
    ///
    /// # Errors
    /// The reason why saving the files failed.
    pub(super) fn take(change: &PackageChange, step: &str) -> std::result::Result<Option<Snapshot>, String> {
        let Some(root) = root_of(change).filter(|root| can_write(root)) else { return Ok(None) };
        Snapshot::save(&root, change, step)
            .map_err(|error| format!("cannot save the files of {} before the change: {error}", root.printable()))
    }

    fn save(root: &Path, change: &PackageChange, step: &str) -> Result<Option<Snapshot>> {
        clear_incomplete(root)?;
        let dir = root.join(NAME);
        create_private_dir(&dir)?;
        // Another doctor may replace the directory until it is locked. Only an empty directory is removed here.
        let lock = lock(&dir).inspect_err(|_| drop(std::fs::remove_dir(&dir)))?;
        check_no_journal(&dir)?;
        let journal = Scope::of(change, breadth(&dir)).map(|scope| save_into(&dir, scope, step)).transpose();
        if !matches!(journal, Ok(Some(_))) {
            let _ = std::fs::remove_dir_all(&dir);
        }
        Ok(journal?.map(|journal| Snapshot { root: root.to_owned(), journal, lock }))
    }

    /// Returns an empty file as the installer's stdin. Because the file carries the lock, the snapshot stays locked
    /// until the installer exits.
    pub(super) fn input(&self) -> Option<Stdio> {
        self.lock.try_clone().ok().map(Stdio::from)
    }

    /// Removes the snapshot after a successful step.
    ///
    /// # Errors
    /// An error of the operating system. The next `fix` would then undo the step.
    pub(super) fn discard(self) -> Result<()> {
        remove(&self.root.join(NAME))
    }

    /// Describes the files that undoing the step would remove, except those that the step's own packages installed.
    ///
    /// # Errors
    /// The step cannot be undone.
    pub(super) fn removes(&self) -> Result<Vec<String>> {
        Ok(restore::changes(&self.root, &self.journal)?.removes())
    }

    /// Undoes the step, and removes these files. Returns the descriptions of added files that remain.
    ///
    /// # Errors
    /// An error of the operating system. The next `fix` tries again.
    pub(super) fn restore(self, removed: &[String]) -> Result<Vec<String>> {
        let left = restore::restore(&self.root, &self.journal, removed)?;
        self.discard()?;
        Ok(left)
    }
}

/// Returns which packages to save. Where hard links are not cheap, saving all packages could copy gigabytes.
fn breadth(dir: &Path) -> Breadth {
    let link = dir.join("link");
    let is_cheap = !is_on_overlay(dir) && std::fs::hard_link(dir.join(LOCK), &link).is_ok();
    let _ = std::fs::remove_file(link);
    if is_cheap { Breadth::All } else { Breadth::Named }
}

fn save_into(dir: &Path, scope: Scope, step: &str) -> Result<Journal> {
    let files = dir.join(FILES);
    create_private_dir(&files)?;
    let Scope { root, package_dirs, packages, files: touched, dirs } = scope;
    let mut listed = BTreeMap::new();
    for file in &touched {
        let target = std::fs::read_link(file).ok();
        let target = target.map(|target| {
            target.to_str().map(str::to_owned).ok_or_else(|| Error::other("the target of a link is not UTF-8"))
        });
        listed.insert(relative(&root, file)?, target.transpose()?);
        let saved = files.join(file.strip_prefix(&root).map_err(Error::other)?);
        saved.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        link_or_copy(file, &saved)?;
    }
    let names = |dir: &PathBuf| Ok((relative(&root, dir)?, names_in(dir)?));
    // Debian's Python installs programs into /usr/local/bin.
    let program_dirs = ["bin", "local/bin"].map(|dir| (dir.to_owned(), names_in(&root.join(dir)).unwrap_or_default()));
    let journal = Journal {
        step: step.to_owned(),
        packages,
        package_dirs: package_dirs.iter().map(|dir| relative(&root, dir)).collect::<Result<_>>()?,
        dirs: dirs.iter().map(names).collect::<Result<_>>()?,
        program_dirs: program_dirs.into(),
        files: listed,
        root_id: file_id(&root),
    };
    // A step that could not be undone must not start.
    journal::check(&root, &journal).map_err(Error::other)?;
    let mut file = NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut file, &journal)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist(dir.join(JOURNAL))?;
    sync_dir(dir);
    Ok(journal)
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
        Some(id) if file_id(&path) == Some(id) => Ok(file),
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

fn check_no_journal(dir: &Path) -> Result<()> {
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
