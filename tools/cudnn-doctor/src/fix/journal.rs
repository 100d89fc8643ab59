//! Reads the journal of a snapshot, unless it came with a copy or an archive of an environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cudnn_os::files::{FileId, change_time, file_id};
use cudnn_os::rights::{belongs_to_user, is_private_dir, is_root};
use cudnn_probe::read_bounded;
use serde::{Deserialize, Serialize};

use super::refusal::of_others;
use super::scope::{Packages, is_dir};
use super::undo_dir::{JOURNAL, LOCK, NAME};
use crate::escape::Printable;

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
    pub(super) written_for: Option<Identity>,
}

/// Identifies the environment and its snapshot. A copy or an archive of an environment can contain a journal, but cannot
/// set the time at which the lock was last changed.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Identity {
    root: FileId,
    lock: FileId,
    lock_changed: (i64, i64),
}

impl Identity {
    /// Returns the identity of the environment at this root and its snapshot, which must have a lock.
    pub(super) fn of(root: &Path) -> Option<Identity> {
        let lock = root.join(NAME).join(LOCK);
        Some(Identity { root: file_id(root)?, lock: file_id(&lock)?, lock_changed: change_time(&lock)? })
    }
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
        if journal.written_for.is_none() || journal.written_for != Identity::of(root) {
            return Err(format!("it was written for another directory than {}", root.printable()));
        }
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
    }
}
