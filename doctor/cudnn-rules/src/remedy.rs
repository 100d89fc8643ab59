//! Describes fixes for findings as data. Checks return remedies, which a plan combines before it generates commands.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::shell::{SEARCH_PATH, SEPARATOR};
use cudnn_probe::{DIR_VARIABLE, Version};

use crate::drop_in::command::DropInCommand;
use crate::packages::PackageChange;
use crate::shell::{kept_entries, split_list};

/// A fix for a finding: a sentence, and the actions that a person or the doctor can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    pub(crate) text: String,
    /// Empty if no command can fix the finding.
    pub(crate) actions: Vec<Action>,
    pub(crate) effect: Effect,
    /// Whether the actions are only part of the fix, and a person has to do the rest.
    pub(crate) is_by_hand: bool,
}

/// The effect of a remedy on the installation that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes the environment of a shell, or something unrelated to cuDNN.
    Other,
    /// Changes packages or files in the directory of the installation.
    SameDir,
    /// Makes programs use an installation in a different directory.
    OtherDir,
}

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
    /// Removes files that no installer owns, or one directory with its contents.
    Remove {
        /// The files, or the directory.
        paths: Vec<PathBuf>,
        /// Whether it is a directory.
        is_dir: bool,
    },
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

impl Remedy {
    /// Returns a remedy without actions.
    pub fn new(text: impl Into<String>) -> Self {
        Remedy { text: text.into().printable(), actions: Vec::new(), effect: Effect::Other, is_by_hand: false }
    }

    pub(crate) fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Adds an action.
    pub fn action(mut self, action: impl Into<Action>) -> Self {
        self.actions.push(action.into());
        self
    }

    /// Adds actions.
    pub fn actions(self, actions: impl IntoIterator<Item = Action>) -> Self {
        actions.into_iter().fold(self, Remedy::action)
    }

    pub(crate) fn by_hand(self) -> Self {
        Remedy { is_by_hand: true, ..self }
    }

    pub(crate) fn search(self, dir: &Path) -> Self {
        self.action(Variable::Search(dir.to_owned()))
    }

    pub(crate) fn set(self, name: &str, value: impl Into<OsString>) -> Self {
        self.action(Variable::Set { name: name.to_owned(), value: value.into() })
    }

    pub(crate) fn unset(self, name: &str) -> Self {
        self.action(Variable::Unset(name.to_owned()))
    }

    /// Adds a command of the doctor that shows more.
    pub(crate) fn look<A: Into<OsString>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.action(Action::Inspect(cudnn_cli::programs::doctor_command(arguments)))
    }

    /// Adds a change of packages, in the place that the installer changes.
    pub(crate) fn change(self, change: PackageChange) -> Self {
        self.action(Action::Packages(change.in_changed_place()))
    }

    pub(crate) fn with_text(self, text: impl Into<String>) -> Self {
        Remedy { text: text.into(), ..self }
    }

    pub(crate) fn with_end(self, end: &str) -> Self {
        Remedy { text: format!("{}{end}", self.text.trim_end_matches(':')).printable(), ..self }
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &PackageChange> {
        self.actions.iter().filter_map(|action| match action {
            Action::Packages(change) => Some(change),
            _ => None,
        })
    }

    pub(crate) fn is_of_shell(&self) -> bool {
        self.actions.iter().all(|action| matches!(action, Action::Variable(_)))
    }

    pub(crate) fn installs(&self) -> bool {
        self.changes().any(|change| !change.install.is_empty() || !change.reinstall.is_empty())
    }

    /// Returns whether the remedy only restores the files of packages.
    pub(crate) fn only_reinstalls(&self) -> bool {
        self.actions.iter().all(|action| match action {
            Action::Packages(change) => change.only_reinstalls(),
            action => matches!(action, Action::Inspect(_)),
        })
    }
}

impl Action {
    /// Returns the directory or file that the remedy changes or makes programs use, if there is a single one.
    pub fn place(&self) -> Option<&Path> {
        match self {
            Action::Packages(change) => change.site.dir(),
            Action::Python(dir) | Action::CreateDir(dir) => Some(dir),
            Action::Permit { path: dir, .. } | Action::Link { dir, .. } | Action::DropIn { dir, .. } => Some(dir),
            Action::Variable(Variable::Search(dir) | Variable::Use(dir)) => Some(dir),
            Action::Variable(_) | Action::Remove { .. } | Action::Ldconfig | Action::Inspect(_) => None,
        }
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

impl From<String> for Remedy {
    fn from(text: String) -> Self {
        Remedy::new(text)
    }
}

impl From<&str> for Remedy {
    fn from(text: &str) -> Self {
        Remedy::new(text)
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
}
