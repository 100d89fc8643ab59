//! Decides whether two actions contradict each other, by the rules in docs/design/0023-plan.md.

use std::ffi::OsStr;
use std::path::Path;

use cudnn_probe::DIR_VARIABLE;

use crate::packages::PackageChange;
use crate::remedy::{Action, Remedy, Variable};
use crate::shell::SEARCH_PATH;

/// Returns whether two remedies are mutually exclusive.
pub(super) fn is_between(one: &Remedy, other: &Remedy) -> bool {
    one.actions.iter().any(|one| other.actions.iter().any(|other| contradict(one, other)))
}

fn contradict(one: &Action, other: &Action) -> bool {
    if one == other {
        return false;
    }
    match (one, other) {
        (Action::Packages(one), Action::Packages(other)) => is_same_place(one, other) && !one.is_compatible_with(other),
        (Action::Link { dir, .. }, Action::Link { dir: other, .. }) => dir == other,
        (Action::DropIn { dir, .. }, Action::DropIn { dir: other, .. }) => dir == other,
        (Action::Variable(one), Action::Variable(other)) => variables(one, other) || variables(other, one),
        _ => removes_place(one, other) || removes_place(other, one),
    }
}

/// Returns whether both changes work in one directory, even if their installers differ.
fn is_same_place(one: &PackageChange, other: &PackageChange) -> bool {
    one.site.merged_with(&other.site).is_some() || one.site.dir().is_some_and(|dir| other.site.dir() == Some(dir))
}

/// Returns whether the first action removes the directory that the second one uses, or the Python that it starts.
fn removes_place(removal: &Action, other: &Action) -> bool {
    let Action::Remove { paths, is_dir: true } = removal else { return false };
    let python = if let Action::Packages(change) = other { change.site.python_root() } else { None };
    let mut places = other.place().into_iter().chain(python);
    places.any(|place| paths.iter().any(|path| place.starts_with(path)))
}

/// Returns whether the two changes set different values for a variable, or add and remove one directory.
fn variables(one: &Variable, other: &Variable) -> bool {
    if let (Some((name, value)), Some((other, after))) = (assignment(one), assignment(other)) {
        return name == other && value != after;
    }
    match (one, other) {
        (Variable::Without { name, entries }, Variable::Search(dir) | Variable::Use(dir)) => {
            let real = |dir: &Path| cudnn_probe::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
            *name == SEARCH_PATH && entries.iter().any(|entry| real(Path::new(entry)) == real(dir))
        }
        _ => false,
    }
}

/// Returns the name of the assigned variable with its value, where `None` means that it is removed.
fn assignment(variable: &Variable) -> Option<(&str, Option<&OsStr>)> {
    match variable {
        Variable::Set { name, value } => Some((name, Some(value))),
        Variable::Unset(name) => Some((name, None)),
        Variable::Use(dir) => Some((DIR_VARIABLE, Some(dir.as_os_str()))),
        Variable::Without { .. } | Variable::Search(_) => None,
    }
}
