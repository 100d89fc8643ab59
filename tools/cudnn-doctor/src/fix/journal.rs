//! Reads and checks the journal of a snapshot. An archive or a copy of an environment can contain a prepared one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_os::files::{FileId, file_id};
use cudnn_os::rights::{belongs_to_user, is_private_dir, is_root};
use cudnn_probe::{canonicalize, read_bounded};
use serde::{Deserialize, Serialize};

use super::refusal::of_others;
use super::scope::{Packages, is_dir, recorded_files};
use super::undo_dir::{FILES, JOURNAL, NAME};
use crate::escape::Printable;
use crate::packages::{python_in, records};

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

/// Reads the journal in the environment at this root. Returns `None` if there is none, or if it belongs to another
/// user.
///
/// # Errors
/// The reason why the journal cannot be used.
pub(super) fn read(root: &Path) -> Option<Result<Journal, String>> {
    let dir = root.join(NAME);
    let file = dir.join(JOURNAL);
    // Root never changes another user's environment, so such a journal was not written by root.
    if !is_dir(&dir) || !belongs_to_user(&dir) || is_root() && of_others(root).is_some() {
        return None;
    }
    file.symlink_metadata().ok()?;
    let read = || {
        if !is_private_dir(&dir) {
            return Err("other users can access it".to_owned());
        }
        let journal = parse(&file)?;
        check(root, &journal)?;
        Ok(journal)
    };
    let result = read().map_err(|reason| {
        let (file, dir) = (file.printable(), dir.printable());
        format!("the journal of an interrupted step cannot be read ({file}: {reason}): remove {dir} to go on")
    });
    // Another doctor may have completed the step in the meantime.
    (result.is_ok() || file.symlink_metadata().is_ok()).then_some(result)
}

fn parse(file: &Path) -> Result<Journal, String> {
    const MAX_LEN: u64 = 64 << 20;
    if !file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("not a regular file".to_owned());
    }
    let bytes = read_bounded(file, MAX_LEN).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// Checks that a journal belongs to the environment at this root, that it lists all saved files, and that restoring
/// them changes only packages.
///
/// # Errors
/// The broken rule.
pub(super) fn check(root: &Path, journal: &Journal) -> Result<(), String> {
    if journal.root_id.is_none() || journal.root_id != file_id(root) {
        return Err(format!("it was written for another directory than {}", root.printable()));
    }
    let is_environment = python_in(root).symlink_metadata().is_ok() || root.join("pyvenv.cfg").exists();
    let sites = site_packages(root).chain(site_packages(&root.join("local"))).filter_map(|dir| canonicalize(dir).ok());
    let sites = sites.filter_map(|dir| dir.strip_prefix(root).ok().map(Path::to_owned));
    let sites: BTreeSet<PathBuf> = sites.chain((!is_environment).then(PathBuf::new)).collect();
    if let Some(dir) = journal.package_dirs.iter().find(|dir| !sites.contains(Path::new(dir))) {
        return Err(format!("{} is not a directory of packages", dir.printable()));
    }
    let in_packages = |path: &Path| is_plain(path) && journal.package_dirs.iter().any(|dir| path.starts_with(dir));
    if let Some(dir) = journal.dirs.keys().find(|dir| !in_packages(Path::new(dir))) {
        return Err(format!("{} is not a directory of packages", dir.printable()));
    }
    let saved = root.join(NAME).join(FILES);
    let records = journal.package_dirs.iter().flat_map(|dir| records(&saved.join(dir)));
    let records = records.filter(|record| journal.packages.contain(&record.name));
    let recorded: BTreeSet<PathBuf> = records.flat_map(|record| recorded_files(&record.dir)).collect();
    let is_allowed =
        |path: &Path| in_packages(path) || recorded.contains(&saved.join(path)) && is_outside_file(root, path);
    if let Some(file) = journal.files.keys().find(|file| !is_allowed(Path::new(file))) {
        return Err(format!("{} is not a file of its packages", file.printable()));
    }
    let mut count = 0;
    check_saved(root, journal, Path::new(""), &mut count)?;
    if count == journal.files.len() { Ok(()) } else { Err("some of its saved files are missing".to_owned()) }
}

/// Checks the saved files in one directory, and counts them.
fn check_saved(root: &Path, journal: &Journal, name: &Path, count: &mut usize) -> Result<(), String> {
    // A separator at the end would follow a link.
    let dir: PathBuf = root.join(NAME).join(FILES).components().chain(name.components()).collect();
    let strange = |path: &Path| Err(format!("it does not list {}", path.printable()));
    if !is_dir(&dir) {
        return strange(&dir);
    }
    let before = *count;
    for entry in std::fs::read_dir(&dir).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let (path, name) = (entry.path(), name.join(entry.file_name()));
        let kind = entry.file_type().map_err(|error| error.to_string())?;
        if kind.is_dir() {
            check_saved(root, journal, &name, count)?;
            continue;
        }
        *count += 1;
        let is_listed = match name.to_str().and_then(|name| journal.files.get(name)) {
            Some(None) => kind.is_file(),
            Some(Some(target)) => {
                // Where the file will be restored. Packages can contain links to single files elsewhere, for example in
                // the cache of uv.
                let real = canonicalize(root.join(&name).with_file_name(target)).ok();
                let is_outside = real.is_some_and(|real| real.is_dir() && !real.starts_with(root));
                std::fs::read_link(&path).is_ok_and(|now| now == Path::new(target)) && !is_outside
            }
            None => false,
        };
        if !is_listed {
            return strange(&path);
        }
    }
    // Restoring an empty directory could replace a file.
    if *count == before && !name.as_os_str().is_empty() { strange(&dir) } else { Ok(()) }
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}

/// Returns whether a package may install this file outside of the directories of packages, such as a program in `bin`.
fn is_outside_file(root: &Path, path: &Path) -> bool {
    let mut above = path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()).map(|dir| root.join(dir));
    is_plain(path)
        && path != Path::new("pyvenv.cfg")
        && !path.starts_with(NAME)
        && !is_of_python(path)
        && above.all(|dir| is_dir(&dir) || dir.symlink_metadata().is_err())
}

/// Returns whether this file is the Python of an environment or a script that activates it, which belong to no package.
pub(super) fn is_of_python(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let is_version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || b".tw".contains(&byte));
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let is_script = name == "activate" || name.starts_with("activate.") || name == "activate_this.py";
    is_script || name.strip_prefix("python").is_some_and(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_packages_are_not_mistaken_for_those_of_python() {
        for name in ["python", "python3.12", "python.exe", "activate", "Activate.ps1", "activate_this.py"] {
            assert!(is_of_python(&Path::new("bin").join(name)), "{name}");
        }
        for name in ["activate-global-python-argcomplete", "python-argcomplete-check-easy-install-script", "pip3.12"] {
            assert!(!is_of_python(&Path::new("bin").join(name)), "{name}");
        }
        let root = Path::new("/nowhere");
        assert!(is_outside_file(root, Path::new("LICENSE")) && !is_outside_file(root, Path::new("pyvenv.cfg")));
    }
}
