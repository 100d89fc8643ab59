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
        let known = action.changed_places().into_iter().filter(|path| path.parent().is_some());
        let mut paths: Vec<PathBuf> = known.map(Path::to_owned).collect();
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
            Action::Remove(dirs) => {
                dirs.iter().filter(|dir| !dir.is_symlink()).for_each(|dir| paths.extend(below(dir)));
            }
            _ => {
                let entries = paths.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
                paths.extend(entries.map(|entry| entry.path()).collect::<Vec<_>>());
            }
        }
        State(paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect())
    }

    /// Returns whether a recorded file or directory has changed. New files change their directory.
    pub(super) fn has_changed(&self) -> bool {
        self.0.iter().any(|(path, before)| stamp(path) != *before)
    }

    /// Accepts the changes that a step itself made.
    pub(super) fn after(&mut self, done: &Action) {
        // An installer's step may first install a system package.
        let system = (!done.environments().is_empty()).then_some(Path::new(DPKG_STATUS));
        // The directories above a new one may be new, too.
        let makes_dirs = matches!(done, Action::CreateDir(_));
        let changed: Vec<PathBuf> = done.changed_places().into_iter().chain(system).map(real).collect();
        for (path, before) in &mut self.0 {
            let place = real(path);
            // Changing an entry also changes the directory.
            let is_above =
                |changed: &PathBuf| changed.parent() == Some(&place) || makes_dirs && changed.starts_with(&place);
            if changed.iter().any(|changed| place.starts_with(changed) || is_above(changed)) {
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

/// Resolves symbolic links except in the last component.
fn real(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(|dir| canonicalize(dir).ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_probe::Version;

    #[test]
    fn only_changes_of_the_step_itself_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("libcudnn.so.9.28.0");
        std::fs::write(&file, "").unwrap();
        let next = Action::Link { dir: dir.path().to_owned(), version: Version::new(9, 28, 0) };
        let mut state = State::of(&next);
        let new = dir.path().join("new/below");
        std::fs::create_dir_all(&new).unwrap();
        state.after(&Action::CreateDir(new.clone()));
        assert!(!state.has_changed());
        std::fs::write(&file, "other").unwrap();
        state.after(&Action::CreateDir(new));
        assert!(state.has_changed());
        state.after(&Action::Remove(vec![file]));
        assert!(!state.has_changed());
    }
}
