//! Undoes a step that was interrupted, by the files that were saved before it.

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

/// A step that was interrupted. Its environment can be as before it.
pub(crate) struct Unfinished {
    pub(crate) root: PathBuf,
    journal: Journal,
}

/// Was a step interrupted in the environment at this root? Asks for nothing but the file that says so.
pub(crate) fn was_interrupted(root: &Path) -> bool {
    root.join(NAME).join(JOURNAL).leads_to_file()
}

/// Finds the steps that were interrupted in the environments at these roots.
pub(crate) fn unfinished(roots: impl IntoIterator<Item = PathBuf>) -> Vec<Unfinished> {
    let roots: BTreeSet<PathBuf> = roots.into_iter().filter_map(|root| canonicalize(root).ok()).collect();
    roots.into_iter().filter_map(Unfinished::at).collect()
}

/// Removes the snapshots in these environments that a killed doctor has left, and that are not needed.
pub(crate) fn clear(roots: impl IntoIterator<Item = PathBuf>) {
    // A step that cannot begin because of one says why.
    roots.into_iter().for_each(|root| drop(snapshot::clear_incomplete(&root)));
}

impl Unfinished {
    fn at(root: PathBuf) -> Option<Unfinished> {
        const MAX_LEN: u64 = 64 << 20;
        let dir = root.join(NAME);
        // Root never changes the environment of another user, so that journal is not root's.
        if !snapshot::is_own(&dir) || is_root() && of_others(&dir).is_some() {
            return None;
        }
        let journal = serde_json::from_slice(&read_bounded(&dir.join(JOURNAL), MAX_LEN).ok()?).ok()?;
        Some(Unfinished { root, journal })
    }

    /// Returns what the step does, in a few words.
    pub(crate) fn step(&self) -> &str {
        &self.journal.step
    }

    /// Lists the packages that were installed after the interruption: to undo the step would remove them.
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

    /// Makes the environment as it was before the step.
    ///
    /// # Errors
    /// The installer of the step still runs, or the system's.
    pub(crate) fn restore(&self) -> Result<()> {
        let dir = self.root.join(NAME);
        let _lock = snapshot::lock(&dir)?;
        restore(&self.root, &self.journal)?;
        snapshot::remove(&dir)
    }
}

/// Brings back all saved files and removes the files that were added. An interrupted call is repeated.
pub(super) fn restore(root: &Path, journal: &Journal) -> Result<()> {
    let saved = root.join(NAME).join(FILES);
    // A directory comes before those in it.
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

/// Brings back the files in a directory of the snapshot.
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

/// Removes the files of a new package that are not in a directory of packages, such as programs.
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

/// The path with this name below the root.
///
/// # Errors
/// A symbolic link on the way leads elsewhere, or the name has other parts than names.
fn below(root: &Path, name: &Path) -> Result<PathBuf> {
    let path = root.join(name);
    let is_plain = name.components().all(|component| matches!(component, Component::Normal(_)));
    let is_real = name.as_os_str().is_empty()
        || path.parent().is_some_and(|dir| canonicalize(dir).is_ok_and(|real| real.starts_with(root) && real == dir));
    if is_plain && is_real {
        return Ok(if name.as_os_str().is_empty() { root.to_owned() } else { path });
    }
    Err(Error::other(format!("{} is not a path without links in the environment", path.printable())))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    match (is_link(one), is_link(other)) {
        (true, true) => std::fs::read_link(one).ok() == std::fs::read_link(other).ok(),
        (false, false) => file_id(one).is_some_and(|id| file_id(other) == Some(id)),
        _ => false,
    }
}

/// Removes what is at this path, if anything is there.
fn remove(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
    }
}
