//! Restores the saved files of a step that was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, Result};
use std::path::{Component, Path, PathBuf};

use cudnn_os::files::file_id;
use cudnn_os::rights::is_private_dir;
use cudnn_probe::canonicalize;

use super::journal::{self, Journal};
use super::scope::{is_dir, recorded_files};
use super::undo_dir::{self, FILES, NAME, link_or_copy};
use crate::escape::Printable;
use crate::packages::{Record, records};

/// The files that were added since the journal was written.
#[derive(Default)]
struct Changes {
    /// The files of the step's own packages, and caches.
    own: Vec<PathBuf>,
    /// All other files by their descriptions. The programs of a package have its description.
    others: BTreeMap<String, Vec<PathBuf>>,
}

/// Compares the environment with the journal.
///
/// # Errors
/// The installer removed files that were not saved, or the operating system reports an error.
fn changes(root: &Path, journal: &Journal) -> Result<Changes> {
    check_lost(root, journal)?;
    let Journal { packages, package_dirs, .. } = journal;
    let mut added = Vec::new();
    for (name, names) in &journal.dirs {
        if is_dir(&root.join(name)) {
            let dir = below(root, Path::new(name))?;
            let new = undo_dir::names_in(&dir)?.into_iter().filter(|new| !names.contains(new));
            added.extend(new.map(|new| (name, dir.join(&new), new)));
        }
    }
    let (own, others): (Vec<Record>, Vec<Record>) = package_dirs
        .iter()
        .flat_map(|dir| records(&root.join(dir)))
        .filter(|record| added.iter().any(|(_, path, _)| *path == record.dir))
        .partition(|record| packages.contain(&record.name));
    let with_dirs = |records: &[Record]| -> BTreeSet<PathBuf> {
        let files = records.iter().flat_map(|record| recorded_files(&record.dir));
        files.flat_map(|file| file.ancestors().map(Path::to_owned).collect::<Vec<_>>()).collect()
    };
    let (of_own, of_others) = (with_dirs(&own), with_dirs(&others));
    let is_of_nvidia = |path: &Path| {
        let in_site = package_dirs.iter().find_map(|dir| path.strip_prefix(root.join(dir)).ok());
        packages.has_any_of_nvidia() && in_site.is_some_and(|path| path.starts_with("nvidia"))
    };
    let mut changes = Changes::default();
    for (dir, path, name) in added {
        // pip renames directories to `~` and part of the name before it removes them.
        let is_cache = name == "__pycache__" || Path::new(dir).ends_with("__pycache__") || name.starts_with('~');
        let is_own = is_cache
            || !of_others.contains(&path)
                && (own.iter().any(|record| record.dir == path)
                    || of_own.contains(&path)
                    || is_of_nvidia(&path)
                    || !package_dirs.contains(dir) && was_changed(root, dir));
        if is_own {
            changes.own.push(path);
        } else {
            let record = others.iter().find(|record| record.dir == path);
            let in_root = || path.strip_prefix(root).unwrap_or(&path).printable();
            let description = record.map_or_else(in_root, |record| format!("{} {}", record.name, record.version));
            let programs = record.into_iter().flat_map(|record| new_programs(root, &record.dir, journal));
            changes.others.entry(description).or_default().extend(programs.chain([path]));
        }
    }
    changes.own.extend(own.iter().flat_map(|record| new_programs(root, &record.dir, journal)));
    Ok(changes)
}

/// Refuses to undo a step whose installer removed files that were not saved.
fn check_lost(root: &Path, journal: &Journal) -> Result<()> {
    /// The maximum number of names in the message.
    const MAX: usize = 5;
    let saved = root.join(NAME).join(FILES);
    let mut lost: BTreeSet<String> = BTreeSet::new();
    for (dir, names) in &journal.dirs {
        let now = undo_dir::names_in(&root.join(dir)).unwrap_or_default();
        for name in names.difference(&now) {
            let path = Path::new(dir).join(name);
            let is_restored = saved.join(&path).symlink_metadata().is_ok()
                || path.to_str().is_some_and(|path| journal.dirs.contains_key(path));
            let is_cache = name == "__pycache__" || name.ends_with(".pyc") || name.starts_with('~');
            if !is_restored && !is_cache {
                lost.insert(name.strip_suffix(".dist-info").map_or_else(|| path.printable(), str::to_owned));
            }
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    let more = if lost.len() > MAX { " and others" } else { "" };
    let lost: Vec<String> = lost.into_iter().take(MAX).collect();
    Err(Error::other(format!(
        "the installer also changed packages that were not saved ({}{more}), so nothing was restored: repair the \
         packages with the installer, then remove {}",
        lost.join(", "),
        root.join(NAME).printable()
    )))
}

/// Returns whether a saved file directly in this directory was removed or replaced.
fn was_changed(root: &Path, dir: &str) -> bool {
    let saved = std::fs::read_dir(root.join(NAME).join(FILES).join(dir)).into_iter().flatten().flatten();
    let mut files = saved.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
    // Where files were copied, inodes differ although nothing was replaced.
    let times =
        |path: &Path| path.symlink_metadata().and_then(|metadata| Ok((metadata.len(), metadata.modified()?))).ok();
    let is_unchanged = |saved: &Path, path: &Path| is_same(saved, path) || times(saved) == times(path);
    files.any(|entry| !is_unchanged(&entry.path(), &root.join(dir).join(entry.file_name())))
}

/// Returns the programs that this record lists and that did not exist before the step. Lines of the record that lead
/// elsewhere are skipped.
fn new_programs(root: &Path, record: &Path, journal: &Journal) -> Vec<PathBuf> {
    let is_new = |file: &PathBuf| {
        let dir = file.parent().and_then(|dir| dir.strip_prefix(root).ok()).and_then(Path::to_str);
        let before = dir.and_then(|dir| journal.program_dirs.get(dir));
        before.is_some_and(|before| file.file_name().is_some_and(|name| !before.contains(&undo_dir::name(name))))
            && file.symlink_metadata().is_ok()
            && !is_dir(file)
            && !journal::is_of_python(file)
    };
    let in_root = |file: PathBuf| below(root, file.strip_prefix(root).ok()?).ok();
    recorded_files(record).into_iter().filter_map(in_root).filter(is_new).collect()
}

/// Restores all saved files, and removes added files of the step's own packages and those with these descriptions.
/// Returns the descriptions of the other added files. After an interruption it can be called again.
pub(super) fn restore(root: &Path, journal: &Journal, removed: &[String]) -> Result<Vec<String>> {
    let saved = root.join(NAME).join(FILES);
    if !is_private_dir(&saved) {
        return Err(Error::other(format!("the saved files in {} are missing", saved.printable())));
    }
    let Changes { own: mut added, others } = changes(root, journal)?;
    let mut left = Vec::new();
    for (description, paths) in others {
        if removed.contains(&description) { added.extend(paths) } else { left.push(description) }
    }
    // The records come last, because an interrupted restoration needs them to find the remaining files.
    added.sort_by_key(|path| path.extension().is_some_and(|extension| extension == "dist-info"));
    for path in added {
        remove(&path)?;
    }
    // Parent directories are listed before their subdirectories.
    for name in journal.dirs.keys() {
        let dir = below(root, Path::new(name))?;
        if !is_dir(&dir) {
            remove(&dir)?;
            std::fs::create_dir(&dir)?;
        }
    }
    restore_dir(root, &saved, Path::new(""))?;
    Ok(left)
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
