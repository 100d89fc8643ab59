//! Finds the commands that undo a step, by a comparison of the state before it with the state after it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_os::rights::mode;

use super::state::DPKG;
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

/// The packages that the installer of a place has recorded there.
fn versions(site: &Site) -> Versions {
    match site {
        Site::System => of_dpkg(&std::fs::read_to_string(DPKG).unwrap_or_default()),
        Site::Conda(root) => of_conda(&names(&root.join("conda-meta"))),
        _ => {
            let records = site.package_dirs().into_iter().flat_map(|dir| records(&dir));
            by_name(records.map(|record| (record.name, record.version)))
        }
    }
}

fn by_name(packages: impl Iterator<Item = (String, String)>) -> Versions {
    let mut versions = Versions::new();
    packages.for_each(|(name, version)| versions.entry(name).or_default().push(version));
    versions
}

/// The installed packages in the status file of dpkg.
fn of_dpkg(status: &str) -> Versions {
    let package = |paragraph: &str| {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_installed = field("Status:").is_some_and(|status| status.ends_with(" installed"));
        is_installed.then_some(())?;
        Some((field("Package:")?.to_owned(), field("Version:")?.to_owned()))
    };
    by_name(status.split("\n\n").filter_map(package))
}

/// The packages that conda has recorded in these files: `conda-meta/cudnn-9.10.1.4-h7646684_0.json`.
fn of_conda(files: &[PathBuf]) -> Versions {
    let package = |file: &PathBuf| {
        let mut parts = file.file_name()?.to_str()?.strip_suffix(".json")?.rsplitn(3, '-').skip(1);
        let version = parts.next()?.to_owned();
        Some((parts.next()?.to_owned(), version))
    };
    by_name(files.iter().filter_map(package))
}

/// Packages that were removed or changed, each at the version that it had; and the names of those that are new. `None` if
/// a changed package had several records.
fn difference(before: &Versions, after: &Versions, separator: &str) -> Option<(Vec<String>, Vec<String>)> {
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    let new = new.flat_map(|(name, now)| now.iter().map(move |_| name.clone())).collect();
    let lost = before.iter().filter(|(name, versions)| after.get(*name) != Some(versions));
    let lost = lost.map(|(name, versions)| match versions.as_slice() {
        [version] => Some(format!("{name}{separator}{version}")),
        _ => None,
    });
    Some((lost.collect::<Option<_>>()?, new))
}

/// The lines that bring back packages of the system, after the removal of those that may conflict with them.
fn of_system(lost: &[String], new: &[String]) -> Vec<String> {
    let apt_get = |action: &str| Command::new("apt-get", [action, "-y"]);
    let removal = (!new.is_empty()).then(|| apt_get("remove").and(new));
    let installation = (!lost.is_empty()).then(|| apt_get("install").and(["--allow-downgrades"]).and(lost));
    removal.into_iter().chain(installation).map(line_of).collect()
}

/// Brings back the versions that were recorded, and removes what was not there, such as dependencies.
fn of_change(change: &PackageChange, before: &Versions) -> Undo {
    match &change.site {
        Site::Environment(_) | Site::Interpreter { .. } | Site::Directory { .. } => {}
        Site::NewEnvironment { .. } => return Undo::Not("packages were installed into a directory that was there"),
        Site::Conda(_) => {
            return match difference(before, &versions(&change.site), "=") {
                Some((lost, new)) if !lost.is_empty() && new.is_empty() => {
                    by(lines_of(&Action::Packages(PackageChange::of(change.site.clone()).install(lost))))
                }
                Some((lost, new)) if lost.is_empty() && new.is_empty() => Undo::Nothing,
                _ => Undo::Not("`conda install --revision` brings back the revision before it"),
            };
        }
        Site::System => {
            return match difference(before, &versions(&change.site), "=") {
                Some((lost, new)) => by(of_system(&lost, &new)),
                None => Undo::Not("/var/log/apt/history.log has the versions that were there"),
            };
        }
        Site::OnPath => return Undo::Not("the versions that were there are not known"),
    }
    let Some((lost, mut new)) = difference(before, &versions(&change.site), "==") else {
        return Undo::Not("there were several records of one package, of which only one can be right");
    };
    // An environment without pip may have got one, which the lines need.
    new.retain(|name| name != "pip" && name != "setuptools");
    // Without dependencies: what came with this step goes with it.
    let mut undo = PackageChange::of(change.site.clone()).reinstall(lost).remove(new);
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

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Package: a\nStatus: install ok installed\nVersion: 1:2.0-1\n\nPackage: b\nStatus: deinstall ok \
                          config-files\nVersion: 1\n\nPackage: c\nStatus: hold ok installed\nVersion: 3\n";

    #[test]
    fn packages_of_the_system_come_back_at_their_version() {
        let before = of_dpkg(STATUS);
        assert_eq!(before.keys().collect::<Vec<_>>(), ["a", "c"]);
        let after = of_dpkg("Package: d\nStatus: install ok installed\nVersion: 4\n");
        let (lost, new) = difference(&before, &after, "=").unwrap_or_default();
        let lines = of_system(&lost, &new);
        let expected = ["apt-get remove -y d", "apt-get install -y --allow-downgrades a=1:2.0-1 c=3"];
        assert!(lines.len() == 2 && lines.iter().zip(expected).all(|(line, end)| line.ends_with(end)), "{lines:?}");
        assert_eq!(difference(&before, &before, "="), Some((Vec::new(), Vec::new())));
    }

    #[test]
    fn records_of_conda_have_names_with_hyphens() {
        let files = ["/e/conda-meta/cuda-version-12.9-h4f385c5_3.json".into(), "/e/conda-meta/history".into()];
        let expected = by_name([("cuda-version".to_owned(), "12.9".to_owned())].into_iter());
        assert_eq!(of_conda(&files), expected);
    }
}
