//! Describes fixes for findings as data. Checks return remedies, which a plan combines before it generates commands.

mod action;

use std::ffi::OsString;
use std::path::Path;

use cudnn_cli::escape::Printable;

use crate::packages::PackageChange;

pub use action::{Action, Variable};
pub(crate) use action::{off_search_path, without_entries};

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
        self.actions.iter().all(Action::is_of_shell)
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
