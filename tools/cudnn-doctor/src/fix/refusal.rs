//! Refuses steps that root would execute although another user can perform them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_os::rights::{belongs_to_root, is_root, mode, others_may_write};
use cudnn_probe::canonicalize;

use super::scope::{Breadth, Scope};
use super::state::places;
use crate::escape::Printable;
use crate::packages::{PackageChange, Site, path_dirs, python_in};
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
    if let Action::Packages(change) = action
        && let Some(reason) = refusal_of_code(change)
    {
        return Some(reason);
    }
    // A missing path will be created by the owner of the nearest existing parent.
    let nearest = |path: &PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let path = paths.iter().filter_map(nearest).find_map(|path| of_others(&path))?;
    Some(format!("a user other than root can change {}: run `fix` as that user, without root", path.printable()))
}

/// Returns why root must not run the installer of this change: another user can write to the code that the installer
/// executes, or to the files that it replaces.
fn refusal_of_code(change: &PackageChange) -> Option<String> {
    let roots: BTreeSet<&Path> = change.site.dir().into_iter().chain(change.site.python_root()).collect();
    let mut paths: Vec<PathBuf> = Vec::new();
    for root in roots {
        paths.push(root.to_owned());
        if !python_in(root).exists() {
            continue;
        }
        paths.extend([root.join("bin"), root.join("pyvenv.cfg"), python_in(root)]);
        for dir in site_packages(root).chain(site_packages(&root.join("local"))) {
            // Python executes .pth files and sitecustomize.py when it starts.
            let is_started =
                |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pth" || extension == "py");
            paths.extend(entries_of(&dir).filter(is_started));
            for code in ["pip", "_distutils_hack", "sitecustomize"].map(|name| dir.join(name)) {
                if !add_below(&code, &mut paths) {
                    return Some(format!("{} has too many files to check who can change them", code.printable()));
                }
            }
            paths.push(dir);
        }
    }
    let scope = Scope::of(change, Breadth::Named);
    // The installer replaces a link to a device without using the device.
    let leads_to_device = |path: &PathBuf| path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
    let scope = scope.into_iter().flat_map(|scope| scope.dirs.into_iter().chain(scope.files));
    paths.extend(scope.filter(|path| !leads_to_device(path)));
    let of_others = |path: PathBuf| {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let is_strange = path.exists() && (!belongs_to_root(&path) || others_may_write(&path));
        if is_strange {
            Some(path)
        } else if is_link && path.exists() {
            of_others(&path)
        } else {
            None
        }
    };
    let path = paths.into_iter().find_map(of_others)?.printable();
    Some(format!(
        "a user other than root can change {path}: run `fix` as that user, without root, or make {path} belong to root \
         and writable for root only"
    ))
}

fn entries_of(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Adds a file or directory and everything below it. Returns whether the number of entries is below the limit.
fn add_below(path: &Path, paths: &mut Vec<PathBuf>) -> bool {
    const MAX: usize = 20_000;
    let limit = paths.len() + MAX;
    let mut new = vec![path.to_owned()];
    while let Some(path) = new.pop() {
        if path.is_dir() {
            new.extend(entries_of(&path).take(MAX));
        }
        paths.push(path);
        if paths.len() + new.len() > limit {
            return false;
        }
    }
    true
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
