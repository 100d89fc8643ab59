//! Refuses steps that root would execute although another user can.

use std::path::{Path, PathBuf};

use cudnn_os::rights::{belongs_to_root, is_root, mode};
use cudnn_probe::canonicalize;

use super::state::places;
use crate::escape::Printable;
use crate::packages::{Site, path_dirs, python_in};
use crate::remedy::Action;

/// Why the doctor does not execute an action as this user: root does nothing that the owner of the directory can do.
pub(super) fn refusal(action: &Action) -> Option<String> {
    if !is_root() {
        return None;
    }
    let mut paths = places(action);
    match action {
        // Whoever owns the directory decides what is in it.
        Action::Remove { .. } => paths.retain_mut(|path| path.pop()),
        // Whoever owns the program decides what root would run.
        Action::Packages(change) if change.site == Site::OnPath => {
            let mut programs = path_dirs().into_iter().flat_map(|dir| [dir.join("pip"), dir.join("pip3")]);
            paths.extend(programs.find(|program| program.is_file()));
        }
        Action::Packages(change) => {
            let python = change.site.dir().map(python_in);
            // It matters even if the Python in it is lost.
            let bin = python.as_deref().and_then(Path::parent).map(Path::to_owned);
            let programs = python.into_iter().chain(bin);
            paths.extend(change.site.package_dirs().into_iter().chain(programs).filter(|path| path.exists()));
        }
        _ => {}
    }
    // What does not exist yet is made by the owner of the directory above it.
    let nearest = |path: &PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let path = paths.iter().filter_map(nearest).find_map(|path| of_others(&path))?;
    Some(format!(
        "another user than root can change {}: run `fix` as that user, who needs no root for it",
        path.printable()
    ))
}

/// The first directory or file on the way to this path, and to what it is a link to, that another user than root can change.
pub(super) fn of_others(path: &Path) -> Option<PathBuf> {
    // In a directory with this bit, such as /tmp, only owners rename and remove files.
    const STICKY: u32 = 0o1000;
    const OTHERS: u32 = 0o002;
    let is_open = |path: &Path| mode(path).is_some_and(|mode| mode & OTHERS != 0 && mode & STICKY == 0);
    let real = canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let all = path.ancestors().chain(real.ancestors()).filter(|path| !path.as_os_str().is_empty());
    { all }.find(|path| !belongs_to_root(path) || is_open(path)).map(Path::to_owned)
}
