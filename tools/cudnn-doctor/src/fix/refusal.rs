//! Refuses steps that root would execute although another user can perform them.

use std::path::{Path, PathBuf};

use cudnn_os::rights::{belongs_to_root, is_root, mode};
use cudnn_probe::canonicalize;

use super::state::places;
use crate::escape::Printable;
use crate::packages::{Site, path_dirs, python_in};
use crate::remedy::Action;

/// Returns why the doctor refuses to execute an action as the current user. Root must not do work that the owner of
/// the directory can do.
pub(super) fn refusal(action: &Action) -> Option<String> {
    if !is_root() {
        return None;
    }
    let mut paths = places(action);
    match action {
        // The owner of the directory controls the contents.
        Action::Remove { .. } => paths.retain_mut(|path| path.pop()),
        // The owner of the program controls the code that root would run.
        Action::Packages(change) if change.site == Site::OnPath => {
            let mut programs = path_dirs().into_iter().flat_map(|dir| [dir.join("pip"), dir.join("pip3")]);
            paths.extend(programs.find(|program| program.is_file()));
        }
        Action::Packages(change) => {
            let python = change.site.dir().map(python_in);
            // Check the directory even if the Python in it is broken.
            let bin = python.as_deref().and_then(Path::parent).map(Path::to_owned);
            let programs = python.into_iter().chain(bin);
            paths.extend(change.site.package_dirs().into_iter().chain(programs).filter(|path| path.exists()));
        }
        _ => {}
    }
    // A missing path will be created by the owner of the nearest existing parent.
    let nearest = |path: &PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let path = paths.iter().filter_map(nearest).find_map(|path| of_others(&path))?;
    Some(format!("a user other than root can change {}: run `fix` as that user, without root", path.printable()))
}

/// Returns the first directory or file on the path, with symbolic links resolved, that a user other than root can
/// change.
pub(super) fn of_others(path: &Path) -> Option<PathBuf> {
    // In a sticky directory such as /tmp, only owners can rename and remove files.
    const STICKY: u32 = 0o1000;
    const OTHERS: u32 = 0o002;
    let is_open = |path: &Path| mode(path).is_some_and(|mode| mode & OTHERS != 0 && mode & STICKY == 0);
    let real = canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let all = path.ancestors().chain(real.ancestors()).filter(|path| !path.as_os_str().is_empty());
    { all }.find(|path| !belongs_to_root(path) || is_open(path)).map(Path::to_owned)
}
