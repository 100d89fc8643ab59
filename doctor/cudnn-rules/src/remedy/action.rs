//! Defines the actions of remedies, and what code that plans or executes them must know about each kind, except its lines
//! and its simulation.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::shell::{SEARCH_PATH, SEPARATOR};
use cudnn_frameworks::installation::DPKG_STATUS;
use cudnn_probe::facts::PathFacts;
use cudnn_probe::{DIR_VARIABLE, Version};

use crate::drop_in::command::DropInCommand;
use crate::packages::{PackageChange, Site, python_in, python_problem, restore_python};
use crate::shell::{kept_entries, split_list};

/// A single change, or a command that inspects the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a file, or a directory with its contents, readable for everyone.
    Permit {
        /// The file or directory.
        path: PathBuf,
        /// Whether it is a directory.
        is_dir: bool,
    },
    /// Recreates the Python of the virtual environment at this root.
    Python(PathBuf),
    /// Removes files that no installer owns, or directories with their contents.
    Remove(Vec<PathBuf>),
    /// Changes packages.
    Packages(PackageChange),
    /// Creates the missing links of a release in this directory. The files exist under their full names.
    Link {
        /// The directory of the libraries.
        dir: PathBuf,
        /// The release.
        version: Version,
    },
    /// Runs ldconfig to update the links to system libraries.
    Ldconfig,
    /// Creates a directory.
    CreateDir(PathBuf),
    /// Installs or uninstalls the drop-in in a cuDNN directory.
    DropIn {
        /// The command to run.
        command: DropInCommand<'static>,
        /// The directory of cuDNN.
        dir: PathBuf,
    },
    /// Changes a variable of the shell that starts the programs.
    Variable(Variable),
    /// Runs a command that only inspects the machine.
    Inspect(Command),
}

/// A change to an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// Sets the variable.
    Set {
        /// The name of the variable.
        name: String,
        /// The new value.
        value: OsString,
    },
    /// Removes the variable.
    Unset(String),
    /// Removes these entries from a list such as `LD_LIBRARY_PATH`.
    Without {
        /// The name of the list variable.
        name: &'static str,
        /// The entries to remove.
        entries: Vec<OsString>,
    },
    /// Makes the system's loader search this directory first.
    Search(PathBuf),
    /// Makes programs use the cuDNN in this directory.
    Use(PathBuf),
}

impl Action {
    /// Returns the position in the plan, and the kind of place for `--json`. Permissions come first because installers need
    /// them. Shell lines come last because they may need installed packages.
    pub(crate) fn rank_and_kind(&self) -> (u32, &'static str) {
        match self {
            Action::Permit { .. } => (0, "files"),
            Action::Python(_) => (1, "python"),
            Action::Remove(_) => (2, "files"),
            Action::Packages(_) => (3, "packages"),
            Action::Link { .. } => (4, "files"),
            Action::Ldconfig => (5, "files"),
            Action::CreateDir(_) => (6, "files"),
            Action::DropIn { .. } => (7, "drop_in"),
            Action::Variable(Variable::Without { .. } | Variable::Set { .. } | Variable::Unset(_)) => (8, "shell"),
            Action::Variable(Variable::Search(_) | Variable::Use(_)) => (9, "shell"),
            Action::Inspect(_) => (10, "files"),
        }
    }

    /// Returns the files and directories that the action changes. The root directory stands for unknown places.
    pub fn changed_places(&self) -> Vec<&Path> {
        match self {
            Action::Remove(paths) => paths.iter().map(PathBuf::as_path).collect(),
            Action::Packages(PackageChange { site: Site::System, .. }) => vec![Path::new(DPKG_STATUS), Path::new("/")],
            Action::Packages(change) => vec![change.site.dir().unwrap_or(Path::new("/"))],
            Action::Permit { path, .. } | Action::Python(path) | Action::CreateDir(path) => vec![path],
            Action::Link { dir, .. } | Action::DropIn { dir, .. } => vec![dir],
            // It works with all libraries.
            Action::Ldconfig => vec![Path::new("/")],
            Action::Variable(_) | Action::Inspect(_) => Vec::new(),
        }
    }

    /// Returns the directories of the environments that an installer changes or whose Python it starts. The first one
    /// contains the packages.
    pub fn environments(&self) -> Vec<&Path> {
        match self {
            Action::Packages(change) => change.site.dir().into_iter().chain(change.site.python_root()).collect(),
            Action::Python(root) => vec![root],
            _ => Vec::new(),
        }
    }

    /// Returns the files and directories that the action changes or needs.
    pub(crate) fn used_places(&self) -> Vec<&Path> {
        match self {
            Action::Variable(Variable::Search(dir) | Variable::Use(dir)) => vec![dir],
            _ => self.changed_places().into_iter().chain(self.environments()).collect(),
        }
    }

    /// Describes the items that the action removes, except packages that it installs again in any version.
    pub fn removed(&self) -> Vec<String> {
        let mut removed: Vec<String> = match self {
            Action::Remove(paths) => paths.iter().map(|path| path.printable()).collect(),
            Action::Packages(change) => {
                let packages = change.remove.iter().filter(|name| !change.installs(name)).cloned();
                // The doctor itself removes these records.
                packages.chain(change.records_aside().iter().map(|aside| aside.before().printable())).collect()
            }
            Action::Python(root) => {
                let stale = restore_python(root).map(|missing| missing.stale).unwrap_or_default();
                stale.iter().map(|path| path.printable()).collect()
            }
            Action::DropIn { command: DropInCommand::Uninstall, dir } => {
                vec![format!("the drop-in in {}", dir.printable())]
            }
            Action::DropIn { .. } | Action::Permit { .. } | Action::Link { .. } => Vec::new(),
            Action::Ldconfig | Action::CreateDir(_) | Action::Variable(_) | Action::Inspect(_) => Vec::new(),
        };
        let mut seen = BTreeSet::new();
        removed.retain(|one| seen.insert(one.clone()));
        removed
    }

    /// Describes what the action should have removed or repaired, if it is still there.
    pub fn unfinished(&self) -> Option<String> {
        match self {
            Action::Remove(paths) => {
                let existing = paths.iter().find(|path| path.path_exists())?;
                Some(format!("{} still exists", existing.printable()))
            }
            Action::Python(root) => {
                python_problem(root).map(|_| format!("{} still cannot use its packages", python_in(root).printable()))
            }
            _ => None,
        }
    }

    /// Returns whether the action must be pasted into the shell that starts the user's programs.
    pub fn is_of_shell(&self) -> bool {
        matches!(self, Action::Variable(_))
    }

    pub(crate) fn is_search(&self) -> bool {
        matches!(self, Action::Variable(Variable::Search(_)))
    }
}

impl Variable {
    /// Returns the variables that the change assigns, with their new values, where `None` removes a variable. `current`
    /// returns the value of a variable before the change, and `cudnn_below` the directory with cuDNN's libraries below
    /// a directory. Returns `None` if such libraries are missing.
    pub fn assigned(
        &self,
        current: impl Fn(&str) -> Option<OsString>,
        cudnn_below: impl FnOnce(&Path) -> Option<PathBuf>,
    ) -> Option<Vec<(String, Option<OsString>)>> {
        let searched = |dir: &Path| {
            let mut path = dir.as_os_str().to_owned();
            if let Some(rest) = current(SEARCH_PATH).filter(|rest| !rest.is_empty()) {
                path.push(SEPARATOR.to_string());
                path.push(rest);
            }
            (SEARCH_PATH.to_owned(), Some(path))
        };
        Some(match self {
            Variable::Set { name, value } => vec![(name.clone(), Some(value.clone()))],
            Variable::Unset(name) => vec![(name.clone(), None)],
            Variable::Without { name, entries } => {
                let kept = kept_entries(name, &current(name).unwrap_or_default(), entries);
                vec![((*name).to_owned(), Some(kept).filter(|kept| !kept.is_empty()))]
            }
            Variable::Search(dir) => vec![searched(dir)],
            Variable::Use(dir) => {
                let dir = cudnn_below(dir)?;
                vec![searched(&dir), (DIR_VARIABLE.to_owned(), Some(dir.into_os_string()))]
            }
        })
    }
}

impl From<Variable> for Action {
    fn from(variable: Variable) -> Self {
        Action::Variable(variable)
    }
}

/// Returns the change that removes these canonical directories from the search path, if it contains any of them.
pub(crate) fn off_search_path(dirs: &[PathBuf], search_path: &OsStr) -> Option<Variable> {
    let is_removed = |entry: &Path| {
        let entry = if entry.as_os_str().is_empty() { Path::new(".") } else { entry };
        cudnn_probe::canonicalize(entry).is_ok_and(|entry| dirs.contains(&entry))
    };
    without_entries(SEARCH_PATH, search_path, is_removed).map(|(_, change)| change)
}

/// Finds the entries of a list variable to remove. Returns the first entry, with a change that removes all of them.
pub(crate) fn without_entries(
    name: &'static str,
    value: &OsStr,
    is_removed: impl Fn(&Path) -> bool,
) -> Option<(PathBuf, Variable)> {
    let removed = split_list(name, value).into_iter().filter(|entry| is_removed(Path::new(entry)));
    let entries: Vec<OsString> = removed.collect();
    Some((entries.first()?.into(), Variable::Without { name, entries }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_taken_off_the_search_path_under_all_its_names() {
        let off = |path: &str| match off_search_path(&["/usr".into()], OsStr::new(path)) {
            Some(Variable::Without { entries, .. }) => entries,
            _ => Vec::new(),
        };
        assert_eq!(off("/opt/a b:/usr;/usr/../usr/:$x"), ["/usr", "/usr/../usr/"]);
        assert_eq!(off("/opt/a"), [""; 0]);
    }
    fn removed(change: impl FnOnce(PackageChange) -> PackageChange, site: Site) -> Vec<String> {
        Action::Packages(change(PackageChange::of(site))).removed()
    }

    #[test]
    fn a_package_is_removed_unless_the_step_installs_it_again() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        for site in [Site::System, Site::Environment("/nowhere".into())] {
            let swap = |change: PackageChange| change.remove(names(&["x-cu12"])).install(names(&["x-cu13"]));
            assert_eq!(removed(swap, site.clone()), ["x-cu12"]);
            let alone = |change: PackageChange| change.remove(names(&["x", "y", "x"]));
            assert_eq!(removed(alone, site.clone()), ["x", "y"]);
            let again = |change: PackageChange| change.remove(names(&["x", "x"])).install(names(&["x>=2"]));
            assert_eq!(removed(again, site.clone()), [""; 0]);
            let files = |change: PackageChange| change.remove(names(&["x"])).reinstall(names(&["x==2"]));
            assert_eq!(removed(files, site), [""; 0]);
        }
    }
}
