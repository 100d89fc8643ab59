//! Saves the files that a step can change, so that the next `fix` can undo an interrupted step.
//!
//! The snapshot is a directory in the environment. It is valid only while it contains the journal, which is written
//! after all files have been saved. After the step the journal is removed first, then the rest.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cudnn_os::files::{is_on_overlay, sync_dir};
use cudnn_os::rights::{can_write, create_private_dir};
use tempfile::NamedTempFile;

use super::journal::{Identity, Journal};
use super::restore;
use super::scope::{Breadth, Scope, root_of};
use super::undo_dir::{
    FILES, JOURNAL, LOCK, NAME, check_no_journal, clear_incomplete, link_or_copy, lock, names_in, remove,
};
use crate::escape::Printable;
use crate::packages::PackageChange;

/// The saved files of a step that is being executed or was interrupted.
pub(crate) struct Snapshot {
    pub(super) root: PathBuf,
    pub(super) journal: Journal,
    /// The lock on the snapshot, which is also inherited by the installer.
    pub(super) lock: File,
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

    /// Restores the environment to its state before the step. Afterwards, asks whether to remove the added files that
    /// the step's own packages did not install. Returns the descriptions of added files that remain.
    ///
    /// # Errors
    /// The step cannot be undone, or the operating system reports an error. The next `fix` tries again.
    pub(crate) fn undo(self, may_remove: impl FnOnce(&[String]) -> bool) -> Result<Vec<String>> {
        let mut left = restore::restore(&self.root, &self.journal, &[])?;
        if !left.is_empty() && may_remove(&left) {
            left = restore::restore(&self.root, &self.journal, &left)?;
        }
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
    for file in &touched {
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
        written_for: Identity::of(&root),
    };
    if journal.written_for.is_none() {
        return Err(Error::other("the file system does not identify files"));
    }
    let mut file = NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut file, &journal)?;
    file.flush()?;
    file.as_file().sync_all()?;
    file.persist(dir.join(JOURNAL))?;
    sync_dir(dir);
    Ok(journal)
}

/// Returns the path relative to the root, in the form used by the journal.
fn relative(root: &Path, path: &Path) -> Result<String> {
    let below = path.strip_prefix(root).map_err(Error::other)?.to_str();
    below.map(str::to_owned).ok_or_else(|| Error::other(format!("the name {} is not UTF-8", path.printable())))
}
