//! Describes what removes a finding, as data. A check states a remedy, and its commands are made only after all
//! remedies have become one plan.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cudnn_probe::Version;

use crate::drop_in::command::Command as DropInCommand;
use crate::escape::Printable;
use crate::packages::{Command, PackageChange};
use crate::shell::{SEARCH_PATH, split_list};

/// What to do about a finding: a sentence, and the actions that a person or the doctor can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    pub(crate) text: String,
    /// Empty if no command can do it.
    pub(crate) actions: Vec<Action>,
    pub(crate) effect: Effect,
    /// The actions are a part of it alone, and a person has to do the rest.
    pub(crate) is_by_hand: bool,
}

/// What following a remedy changes for the installation that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No package: the environment of a shell, or something that is not cuDNN.
    Other,
    /// The packages or files in the directory of the installation.
    SameDir,
    /// Programs use an installation in another directory.
    OtherDir,
}

/// One change, or one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Lets everybody read a file, or a directory with all that is in it.
    Permit { path: PathBuf, is_dir: bool },
    /// Makes the Python of the virtual environment at this root again.
    Python(PathBuf),
    /// Removes files that no installer owns, or one directory with all that is in it.
    Remove { paths: Vec<PathBuf>, is_dir: bool },
    /// Gives a directory a second name, which a search path can contain.
    NameByLink(PathBuf),
    /// Changes packages.
    Packages(PackageChange),
    /// Makes the links of a release in this directory that are missing; the files are there, under their full names.
    Link { dir: PathBuf, version: Version },
    /// Has ldconfig link the system's libraries again.
    Ldconfig,
    /// Makes a directory.
    CreateDir(PathBuf),
    /// Puts the drop-in in front of the cuDNN in a directory, or takes it away.
    DropIn { command: DropInCommand<'static>, dir: PathBuf },
    /// Changes a variable of the shell that starts the programs.
    Variable(Variable),
    /// Changes nothing, and shows more.
    Inspect(Command),
}

/// A change of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Set {
        name: String,
        value: OsString,
    },
    Unset(String),
    /// Takes these entries off a list, such as `LD_LIBRARY_PATH`.
    Without {
        name: &'static str,
        entries: Vec<OsString>,
    },
    /// Has the system's loader search this directory first.
    Search(PathBuf),
    /// Has programs use the cuDNN in this directory.
    Use(PathBuf),
}

impl Remedy {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Remedy { text: text.into().printable(), actions: Vec::new(), effect: Effect::Other, is_by_hand: false }
    }

    pub(crate) fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    pub(crate) fn action(mut self, action: impl Into<Action>) -> Self {
        self.actions.push(action.into());
        self
    }

    pub(crate) fn actions(self, actions: impl IntoIterator<Item = Action>) -> Self {
        actions.into_iter().fold(self, Remedy::action)
    }

    /// This remedy, of which a person has to do a part.
    pub(crate) fn by_hand(self) -> Self {
        Remedy { is_by_hand: true, ..self }
    }

    /// Has the system's loader search this directory first.
    pub(crate) fn search(self, dir: &Path) -> Self {
        self.action(Variable::Search(dir.to_owned()))
    }

    /// Sets a variable.
    pub(crate) fn set(self, name: &str, value: impl Into<OsString>) -> Self {
        self.action(Variable::Set { name: name.to_owned(), value: value.into() })
    }

    /// Removes a variable.
    pub(crate) fn unset(self, name: &str) -> Self {
        self.action(Variable::Unset(name.to_owned()))
    }

    /// Shows more, by the doctor.
    pub(crate) fn look<A: Into<OsString>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.action(Action::Inspect(crate::shell::doctor_command(arguments)))
    }

    pub(crate) fn change(self, change: PackageChange) -> Self {
        self.action(Action::Packages(change))
    }

    /// The same actions under another text.
    pub(crate) fn with_text(self, text: impl Into<String>) -> Self {
        Remedy { text: text.into(), ..self }
    }

    /// The changes of packages.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &PackageChange> {
        self.actions.iter().filter_map(|action| match action {
            Action::Packages(change) => Some(change),
            _ => None,
        })
    }

    /// Does it install something?
    pub(crate) fn installs(&self) -> bool {
        self.changes().any(|change| !change.install.is_empty() || !change.reinstall.is_empty())
    }
}

impl Action {
    /// The directory or file in which it works, or that it has programs use; `None` if there is none, or several.
    pub(crate) fn place(&self) -> Option<&Path> {
        match self {
            Action::Packages(change) => change.site.dir(),
            Action::Python(dir) | Action::NameByLink(dir) | Action::CreateDir(dir) => Some(dir),
            Action::Permit { path: dir, .. } | Action::Link { dir, .. } | Action::DropIn { dir, .. } => Some(dir),
            Action::Variable(Variable::Search(dir) | Variable::Use(dir)) => Some(dir),
            Action::Variable(_) | Action::Remove { .. } | Action::Ldconfig | Action::Inspect(_) => None,
        }
    }

    /// Does it have the system's loader search other directories?
    pub(crate) fn is_search(&self) -> bool {
        matches!(self, Action::Variable(Variable::Search(_)))
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

/// The change that takes these canonical directories off the search path; `None` if it contains none of them.
pub(crate) fn off_search_path(dirs: &[PathBuf], search_path: &OsStr) -> Option<Variable> {
    let is_removed = |entry: &OsString| {
        let entry = Path::new(if entry.is_empty() { OsStr::new(".") } else { entry });
        cudnn_probe::canonicalize(entry).is_ok_and(|entry| dirs.contains(&entry))
    };
    let entries: Vec<OsString> = split_list(SEARCH_PATH, search_path).into_iter().filter(is_removed).collect();
    (!entries.is_empty()).then_some(Variable::Without { name: SEARCH_PATH, entries })
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
