//! Derives the commands that undo a step by comparing the state before and after it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_os::rights::mode;

use super::state::DPKG;
use crate::drop_in::command::Command as DropInCommand;
use crate::packages::{Command, PackageChange, Site, package_name, records};
use crate::plan::{line_of, lines_of};
use crate::remedy::Action;

/// The prefix of cuDNN's wheels for different CUDA versions.
const CUDNN: &str = "nvidia-cudnn-";

/// How to undo a step.
#[derive(Debug)]
pub(crate) enum Undo {
    /// Run these lines.
    By(Vec<String>),
    /// No command can undo it, for this reason.
    Not(&'static str),
    /// The step made no changes.
    Nothing,
}

/// Maps package names to installed versions. An interrupted upgrade can leave more than one.
type Versions = BTreeMap<String, Vec<String>>;

/// The relevant state before an action.
pub(super) enum Before {
    Packages(Versions),
    /// The directory to be filled was missing.
    NoDir(PathBuf),
    /// Permissions of files that some users cannot read, deepest first. `None` if the current user cannot see all of
    /// them.
    Modes(Option<Vec<(PathBuf, u32)>>),
    /// The missing directories, deepest first.
    Missing(Vec<PathBuf>),
    /// The names in a directory.
    Names(PathBuf, Vec<PathBuf>),
    Other,
}

impl Before {
    /// Records the state before this action.
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

    /// Returns how to undo the action, including one that failed halfway.
    pub(super) fn undo(self, action: &Action) -> Undo {
        match (self, action) {
            (Before::Packages(before), Action::Packages(change)) => of_change(change, &before),
            (Before::NoDir(dir), _) if dir.exists() => {
                Undo::By(vec![line_of(Command::new("rm", ["-r"]).and([&dir]).changing(&dir))])
            }
            (Before::Modes(None), _) => Undo::Not("some of the previous permissions could not be read"),
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
            (_, Action::Python(_)) => Undo::Not("the previous Python could not be used"),
            (_, Action::Remove { paths, .. }) if paths.iter().any(|path| path.symlink_metadata().is_err()) => {
                Undo::Not("the deleted files did not belong to an installer")
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

/// Records the permissions of files that some users cannot read. Returns whether the current user can see them all.
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
    // The step extends execute permission to everyone if any user has it.
    let needed = if metadata.is_dir() || mode & SEARCHABLE != 0 { READABLE | SEARCHABLE } else { READABLE };
    if mode & needed != needed {
        closed.push((path.to_owned(), mode));
    }
    is_complete
}

/// Returns the package versions that the installer recorded at this place.
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

/// Parses the installed packages from dpkg's status file.
fn of_dpkg(status: &str) -> Versions {
    let package = |paragraph: &str| {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_installed = field("Status:").is_some_and(|status| status.ends_with(" installed"));
        is_installed.then_some(())?;
        Some((field("Package:")?.to_owned(), field("Version:")?.to_owned()))
    };
    by_name(status.split("\n\n").filter_map(package))
}

/// Parses the packages that conda recorded in file names such as `conda-meta/cudnn-9.10.1.4-h7646684_0.json`.
fn of_conda(files: &[PathBuf]) -> Versions {
    let package = |file: &PathBuf| {
        let mut parts = file.file_name()?.to_str()?.strip_suffix(".json")?.rsplitn(3, '-').skip(1);
        let version = parts.next()?.to_owned();
        Some((parts.next()?.to_owned(), version))
    };
    by_name(files.iter().filter_map(package))
}

/// Returns removed or changed packages with their previous versions, then the names of new packages. Returns `None`
/// if a changed package had several records.
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

/// Returns the lines that restore system packages, after removing packages that may conflict with them.
fn of_system(lost: &[String], new: &[String]) -> Vec<String> {
    let apt_get = |action: &str| Command::new("apt-get", [action, "-y"]);
    let removal = (!new.is_empty()).then(|| apt_get("remove").and(new));
    let installation = (!lost.is_empty()).then(|| apt_get("install").and(["--allow-downgrades"]).and(lost));
    removal.into_iter().chain(installation).map(line_of).collect()
}

/// Restores the recorded versions and removes packages that were added, such as dependencies.
fn of_change(change: &PackageChange, before: &Versions) -> Undo {
    match &change.site {
        Site::Environment(_) | Site::Interpreter { .. } | Site::Directory { .. } => {}
        Site::NewEnvironment { .. } => return Undo::Not("packages were installed into an existing directory"),
        Site::Conda(_) => {
            return match difference(before, &versions(&change.site), "=") {
                Some((lost, new)) if !lost.is_empty() && new.is_empty() => {
                    by(lines_of(&Action::Packages(PackageChange::of(change.site.clone()).install(lost))))
                }
                Some((lost, new)) if lost.is_empty() && new.is_empty() => Undo::Nothing,
                _ => Undo::Not("`conda install --revision` restores the previous revision"),
            };
        }
        Site::System => {
            return match difference(before, &versions(&change.site), "=") {
                Some((lost, new)) => by(of_system(&lost, &new)),
                None => Undo::Not("/var/log/apt/history.log lists the previous versions"),
            };
        }
        Site::OnPath => return Undo::Not("the previous versions are unknown"),
    }
    let Some((lost, new)) = difference(before, &versions(&change.site), "==") else {
        return Undo::Not("one package had several contradictory records");
    };
    // Wheels for different CUDA versions have the same files, and the order of their installation is unknown.
    let stem = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let shares_files = |name: &String| {
        name.starts_with(CUDNN) && before.keys().any(|other| other != name && stem(other) == stem(name))
    };
    if before.keys().any(|name| shares_files(name) && lost.iter().any(|one| package_name(one) == name)) {
        return Undo::Not("several packages had the same files, which no command restores; only one of them is needed");
    }
    // The step may have added pip itself, which the undo lines need until the end.
    let (tools, new): (Vec<String>, Vec<String>) =
        new.into_iter().partition(|name| ["pip", "setuptools"].contains(&name.as_str()));
    // Dependencies are skipped here, because those added by this step are removed explicitly.
    let mut undo = PackageChange::of(change.site.clone()).reinstall(lost).remove(new);
    if undo.reinstall.is_empty() && undo.remove.is_empty() {
        return Undo::Nothing;
    }
    if let Site::Directory { options, .. } = &mut undo.site {
        if !undo.remove.is_empty() {
            return Undo::Not("pip cannot remove packages from such a directory");
        }
        // Without this option pip leaves existing files in place.
        if !options.contains(&"--upgrade") {
            options.push("--upgrade");
        }
    }
    let mut lines = lines_of(&Action::Packages(undo));
    if lines.is_empty() {
        return Undo::Not("no pip on this machine can restore that directory");
    }
    if !tools.is_empty() && !matches!(change.site, Site::Directory { .. }) {
        lines.extend(lines_of(&Action::Packages(PackageChange::of(change.site.clone()).remove(tools))));
    }
    Undo::By(lines)
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
