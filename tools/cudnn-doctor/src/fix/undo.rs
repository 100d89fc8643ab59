//! How a step is undone: what there was before it, compared with what there is after it, also after a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_os::rights::mode;

use crate::drop_in::command::Command as DropInCommand;
use crate::packages::{Command, PackageChange, Site, records};
use crate::plan::{line_of, lines_of};
use crate::remedy::Action;

/// How a step is undone.
#[derive(Debug)]
pub(crate) enum Undo {
    /// By these lines.
    By(Vec<String>),
    /// It cannot be undone by a command; why.
    Not(&'static str),
    /// Nothing has changed.
    Nothing,
}

/// The versions of each package, by its name. An interrupted upgrade leaves several.
type Versions = BTreeMap<String, Vec<String>>;

/// What an action can change, as it was before.
pub(super) enum Before {
    Packages(Versions),
    /// The directory that it fills did not exist.
    NoDir(PathBuf),
    /// The permissions of files that not everybody can read, the deepest first; `None` if this user cannot see all of them.
    Modes(Option<Vec<(PathBuf, u32)>>),
    /// The directories that did not exist, the deepest first.
    Missing(Vec<PathBuf>),
    /// The names in a directory.
    Names(PathBuf, Vec<PathBuf>),
    Other,
}

impl Before {
    /// What is there before this action.
    pub(super) fn of(action: &Action) -> Before {
        match action {
            Action::Packages(change) => match &change.site {
                Site::Directory { dir, .. } | Site::NewEnvironment { dir, .. } if !dir.exists() => {
                    Before::NoDir(dir.clone())
                }
                site => Before::Packages(versions(site)),
            },
            Action::Permit { path, .. } => {
                let mut closed = Vec::new();
                let is_complete = note_closed(path, &mut closed);
                Before::Modes(is_complete.then_some(closed))
            }
            Action::CreateDir(dir) => {
                let missing = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists());
                Before::Missing(missing.map(Path::to_owned).collect())
            }
            Action::Link { dir, .. } => Before::Names(dir.clone(), names(dir)),
            _ => Before::Other,
        }
    }

    /// How to undo the action, or what it did before it failed.
    pub(super) fn undo(self, action: &Action) -> Undo {
        match (self, action) {
            (Before::Packages(before), Action::Packages(change)) => of_change(change, &before),
            (Before::NoDir(dir), _) if dir.exists() => {
                Undo::By(vec![line_of(Command::new("rm", ["-r"]).and([&dir]).changing(&dir))])
            }
            (Before::Modes(None), _) => Undo::Not("not all permissions that were there could be read"),
            (Before::Modes(Some(modes)), _) => {
                let changed = modes.into_iter().filter(|(path, before)| mode(path).is_some_and(|now| now != *before));
                let line = |(path, mode): (PathBuf, u32)| {
                    line_of(Command::new("chmod", [format!("{mode:o}")]).and([&path]).by_owner_of(&path))
                };
                by(changed.map(line).collect())
            }
            (Before::Missing(dirs), _) => {
                let made = dirs.into_iter().filter(|dir| dir.exists());
                by(made.map(|dir| line_of(Command::new("rmdir", [&dir]).changing(&dir))).collect())
            }
            (Before::Names(dir, before), _) => {
                let new = names(&dir).into_iter().filter(|name| !before.contains(name));
                by(new.map(|name| line_of(Command::new("rm", [&name]).changing(&dir))).collect())
            }
            (_, Action::DropIn { command, dir }) => {
                let command = match command {
                    DropInCommand::Install { .. } => DropInCommand::Uninstall,
                    DropInCommand::Uninstall => DropInCommand::Install { from: None },
                };
                Undo::By(vec![command.command(dir).to_string()])
            }
            (_, Action::Python(_)) => Undo::Not("the Python that was there could not be used"),
            (_, Action::Remove { paths, .. }) if paths.iter().any(|path| path.symlink_metadata().is_err()) => {
                Undo::Not("the files are gone; no installer had them")
            }
            (_, Action::NameByLink(_) | Action::Ldconfig) => Undo::Not("only links were made"),
            _ => Undo::Nothing,
        }
    }
}

fn by(lines: Vec<String>) -> Undo {
    if lines.is_empty() { Undo::Nothing } else { Undo::By(lines) }
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    names.sort();
    names
}

/// Notes the permissions of files at this path that not everybody can read. Returns whether this user can see all of them.
fn note_closed(path: &Path, closed: &mut Vec<(PathBuf, u32)>) -> bool {
    const READABLE: u32 = 0o444;
    const SEARCHABLE: u32 = 0o111;
    let (Ok(metadata), Some(mode)) = (path.symlink_metadata(), mode(path)) else { return false };
    let mut is_complete = true;
    if metadata.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else { return false };
        for entry in entries {
            is_complete &= entry.is_ok_and(|entry| {
                let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
                is_link || note_closed(&entry.path(), closed)
            });
        }
    }
    // A file that one may execute, all may execute afterwards.
    let needed = if metadata.is_dir() || mode & SEARCHABLE != 0 { READABLE | SEARCHABLE } else { READABLE };
    if mode & needed != needed {
        closed.push((path.to_owned(), mode));
    }
    is_complete
}

/// The packages that pip has recorded in a place.
fn versions(site: &Site) -> Versions {
    let mut versions = Versions::new();
    for record in site.package_dirs().iter().flat_map(|dir| records(dir)) {
        versions.entry(record.name).or_default().push(record.version);
    }
    versions
}

/// Brings back the versions that were recorded, and removes what was not there, such as dependencies.
fn of_change(change: &PackageChange, before: &Versions) -> Undo {
    match &change.site {
        Site::Environment(_) | Site::Interpreter { .. } | Site::Directory { .. } => {}
        Site::NewEnvironment { .. } => return Undo::Not("packages were installed into a directory that was there"),
        Site::Conda(_) => return Undo::Not("`conda install --revision` brings back the revision before it"),
        Site::System => return Undo::Not("/var/log/apt/history.log has the versions that were there"),
        Site::OnPath => return Undo::Not("the versions that were there are not known"),
    }
    let after = versions(&change.site);
    let mut undo = PackageChange::of(change.site.clone());
    for (name, now) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        undo.remove.extend(now.iter().map(|_| name.clone()));
    }
    for (name, versions) in before.iter().filter(|(name, versions)| after.get(*name) != Some(versions)) {
        let [version] = versions.as_slice() else {
            return Undo::Not("there were several records of one package, of which only one can be right");
        };
        // Without dependencies: what came with this step goes with it.
        undo.reinstall.push(format!("{name}=={version}"));
    }
    if undo.reinstall.is_empty() && undo.remove.is_empty() {
        return Undo::Nothing;
    }
    if let Site::Directory { options, .. } = &mut undo.site {
        if !undo.remove.is_empty() {
            return Undo::Not("pip removes no packages from such a directory");
        }
        // Else pip leaves the files that are there.
        if !options.contains(&"--upgrade") {
            options.push("--upgrade");
        }
    }
    match lines_of(&Action::Packages(undo)) {
        lines if lines.is_empty() => Undo::Not("no pip of this machine can change that directory back"),
        lines => Undo::By(lines),
    }
}
