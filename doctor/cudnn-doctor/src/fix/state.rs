//! Detects changes that other programs made to the files of a step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cudnn_frameworks::installation::DPKG_STATUS;
use cudnn_frameworks::pip_records;
use cudnn_os::files::inode;
use cudnn_probe::canonicalize;
use cudnn_rules::packages::Site;
use cudnn_rules::remedy::Action;

/// Identifies a version of a file or directory by length, modification time and inode. `None` for a missing path.
pub(super) type Stamp = Option<(u64, Option<SystemTime>, Option<u64>)>;

#[derive(Debug)]
pub(super) struct State(BTreeMap<PathBuf, Stamp>);

impl State {
    pub(super) fn of(action: &Action) -> State {
        let mut paths = places(action);
        match action {
            Action::Packages(change) => {
                for dir in change.site.package_dirs() {
                    paths.extend(pip_records(&dir).into_iter().map(|record| record.path));
                    paths.extend(below(&dir.join("nvidia")));
                    paths.extend([dir.join("nvidia"), dir]);
                }
                if let Site::Conda(root) = &change.site {
                    paths.extend([root.join("conda-meta"), root.join("conda-meta/history")]);
                }
            }
            Action::Python(root) => paths.extend([root.join("pyvenv.cfg"), root.join("bin")]),
            Action::Remove { paths: dirs, is_dir: true } => dirs.iter().for_each(|dir| paths.extend(below(dir))),
            Action::Link { dir, .. } | Action::DropIn { dir, .. } => {
                let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
                paths.extend(entries.map(|entry| entry.path()));
            }
            _ => {}
        }
        State(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }

    /// Returns whether a recorded file or directory has changed. New files change their directory.
    pub(super) fn has_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }

    /// Accepts the changes that a step itself made.
    pub(super) fn after(&mut self, done: &Action) {
        let changed: Vec<PathBuf> = changed_by(done).iter().map(|path| real(path)).collect();
        for (path, before) in &mut self.0 {
            let place = real(path);
            // Changing an entry also changes the directory.
            if changed.iter().any(|changed| place.starts_with(changed) || changed.parent() == Some(&place)) {
                *before = stamp(path);
            }
        }
    }
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let metadata = path.symlink_metadata().ok()?;
    Some((metadata.len(), metadata.modified().ok(), inode(path)))
}

fn below(dir: &Path) -> Vec<PathBuf> {
    const MAX: usize = 10_000;
    let mut all: Vec<PathBuf> = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop().filter(|_| all.len() < MAX) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    all
}

/// Returns the directories and files that an action changes.
pub(super) fn places(action: &Action) -> Vec<PathBuf> {
    match action {
        Action::Remove { paths, .. } => paths.clone(),
        Action::Packages(change) if change.site == Site::System => vec![DPKG_STATUS.into()],
        // ldconfig works with all libraries.
        Action::Variable(_) | Action::Inspect(_) | Action::Ldconfig => Vec::new(),
        // An unknown place can be anywhere.
        action => vec![action.place().unwrap_or(Path::new("/")).to_owned()],
    }
}

fn changed_by(action: &Action) -> Vec<PathBuf> {
    match action {
        // System packages can be anywhere.
        Action::Packages(change) if change.site == Site::System => vec!["/".into()],
        Action::Ldconfig => vec!["/".into()],
        // Such a step may first install a system package.
        Action::Packages(_) | Action::Python(_) => places(action).into_iter().chain([DPKG_STATUS.into()]).collect(),
        Action::CreateDir(dir) => dir.ancestors().filter(|dir| dir.parent().is_some()).map(Path::to_owned).collect(),
        _ => places(action),
    }
}

/// Resolves symbolic links except in the last component.
fn real(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(|dir| canonicalize(dir).ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    }
}
