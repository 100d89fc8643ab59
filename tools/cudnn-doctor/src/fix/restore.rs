//! Restores the saved files of a step that was interrupted.

use std::collections::BTreeSet;
use std::io::{Error, Result};
use std::path::{Component, Path, PathBuf};

use cudnn_os::files::file_id;
use cudnn_os::rights::is_root;
use cudnn_probe::facts::PathFacts;
use cudnn_probe::{canonicalize, read_bounded};

use super::refusal::of_others;
use super::scope::{is_dir, recorded_files};
use super::snapshot::{self, FILES, JOURNAL, Journal, NAME, link_or_copy};
use crate::escape::Printable;
use crate::packages::records;

/// An interrupted step that can be undone.
pub(crate) struct Unfinished {
    pub(crate) root: PathBuf,
    journal: Journal,
}

/// Returns whether a step was interrupted in the environment at this root. Reads only the journal file.
pub(crate) fn was_interrupted(root: &Path) -> bool {
    root.join(NAME).join(JOURNAL).leads_to_file()
}

/// Finds interrupted steps in the environments at these roots.
pub(crate) fn unfinished(roots: impl IntoIterator<Item = PathBuf>) -> Vec<Unfinished> {
    let roots: BTreeSet<PathBuf> = roots.into_iter().filter_map(|root| canonicalize(root).ok()).collect();
    roots.into_iter().filter_map(Unfinished::at).collect()
}

/// Removes unneeded snapshots that a killed doctor left in these environments.
pub(crate) fn clear(roots: impl IntoIterator<Item = PathBuf>) {
    // Errors are ignored here. If a snapshot blocks a later step, that step reports the reason.
    roots.into_iter().for_each(|root| drop(snapshot::clear_incomplete(&root)));
}

impl Unfinished {
    fn at(root: PathBuf) -> Option<Unfinished> {
        const MAX_LEN: u64 = 64 << 20;
        let dir = root.join(NAME);
        // Root never changes another user's environment, so such a journal was not written by root.
        if !snapshot::is_own(&dir) || is_root() && of_others(&dir).is_some() {
            return None;
        }
        let journal = serde_json::from_slice(&read_bounded(&dir.join(JOURNAL), MAX_LEN).ok()?).ok()?;
        Some(Unfinished { root, journal })
    }

    /// Returns a short description of the step.
    pub(crate) fn step(&self) -> &str {
        &self.journal.step
    }

    /// Lists packages installed after the interruption, which undoing the step would remove.
    pub(crate) fn removes(&self) -> Vec<String> {
        let Journal { packages, package_dirs, dirs, .. } = &self.journal;
        let new = |dir: &String| {
            let known = dirs.get(dir);
            let is_known = move |path: &Path| {
                let name = path.file_name().map(snapshot::name).unwrap_or_default();
                known.is_some_and(|known| known.contains(&name))
            };
            let new = records(&self.root.join(dir)).into_iter().filter(move |record| !is_known(&record.dir));
            new.filter(|record| record.dir.join("RECORD").exists() && !packages.contain(&record.name))
        };
        package_dirs.iter().flat_map(new).map(|record| format!("{} {}", record.name, record.version)).collect()
    }

    /// Restores the state of the environment before the step.
    ///
    /// # Errors
    /// The installer of the step is still running, or the operating system reports an error.
    pub(crate) fn restore(&self) -> Result<()> {
        let dir = self.root.join(NAME);
        let _lock = snapshot::lock(&dir)?;
        restore(&self.root, &self.journal)?;
        snapshot::remove(&dir)
    }
}

/// Restores all saved files and removes added files. After an interruption it can be called again.
pub(super) fn restore(root: &Path, journal: &Journal) -> Result<()> {
    let saved = root.join(NAME).join(FILES);
    // Parent directories are listed before their subdirectories.
    for (name, names) in &journal.dirs {
        let dir = below(root, Path::new(name))?;
        if !is_dir(&dir) {
            remove(&dir)?;
            std::fs::create_dir(&dir)?;
        }
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            if names.contains(&snapshot::name(&entry.file_name())) {
                continue;
            }
            remove_programs(root, &entry.path(), journal)?;
            remove(&entry.path())?;
        }
    }
    restore_dir(root, &saved, Path::new(""))
}

/// Restores the files in one directory of the snapshot.
fn restore_dir(root: &Path, saved: &Path, name: &Path) -> Result<()> {
    for entry in std::fs::read_dir(saved.join(name))? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            let dir = below(root, &name)?;
            if !is_dir(&dir) {
                remove(&dir)?;
                std::fs::create_dir(&dir)?;
            }
            restore_dir(root, saved, &name)?;
        } else {
            let file = below(root, &name)?;
            if !is_same(&entry.path(), &file) {
                remove(&file)?;
                link_or_copy(&entry.path(), &file)?;
            }
        }
    }
    Ok(())
}

/// Removes files of a newly installed package that are outside site-packages, such as scripts in `bin`.
fn remove_programs(root: &Path, record: &Path, journal: &Journal) -> Result<()> {
    if record.extension().is_none_or(|extension| extension != "dist-info") {
        return Ok(());
    }
    for file in recorded_files(record) {
        let Ok(name) = file.strip_prefix(root) else { continue };
        let is_of_packages = journal.package_dirs.iter().any(|dir| name.starts_with(dir));
        let is_saved = || root.join(NAME).join(FILES).join(name).symlink_metadata().is_ok();
        if !is_of_packages && file.symlink_metadata().is_ok() && !is_dir(&file) && !is_saved() {
            below(root, name).and_then(|file| remove(&file))?;
        }
    }
    Ok(())
}

/// Returns the path of this name below the root.
///
/// # Errors
/// A symbolic link on the path leads elsewhere, or the name contains components such as `..`.
fn below(root: &Path, name: &Path) -> Result<PathBuf> {
    let path = root.join(name);
    let is_plain = name.components().all(|component| matches!(component, Component::Normal(_)));
    let is_real = name.as_os_str().is_empty()
        || path.parent().is_some_and(|dir| canonicalize(dir).is_ok_and(|real| real.starts_with(root) && real == dir));
    if is_plain && is_real {
        return Ok(if name.as_os_str().is_empty() { root.to_owned() } else { path });
    }
    Err(Error::other(format!("{} is not a path inside the environment without symbolic links", path.printable())))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    match (is_link(one), is_link(other)) {
        (true, true) => std::fs::read_link(one).ok() == std::fs::read_link(other).ok(),
        (false, false) => file_id(one).is_some_and(|id| file_id(other) == Some(id)),
        _ => false,
    }
}

/// Removes the file or directory at this path, if it exists.
fn remove(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    }
}
