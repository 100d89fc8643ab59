//! Merges the actions of several remedies into an ordered list of steps. Equal actions become one step, and so do all
//! package changes in one place.

use std::ffi::OsStr;
use std::mem::discriminant;

use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::facts::PathFacts;

use super::python;
use crate::packages::PackageChange;
use crate::remedy::{Action, Remedy, Variable};
use crate::shell;

#[derive(Debug)]
pub(super) struct Merged {
    pub(super) action: Action,
    /// The indices of these remedies.
    pub(super) of: Vec<usize>,
}

pub(super) fn merge(remedies: &[(usize, &Remedy)]) -> Vec<Merged> {
    let mut all: Vec<Merged> = Vec::new();
    for (index, remedy) in remedies {
        for action in &remedy.actions {
            let needed = match action {
                Action::Packages(change) => python::needed_by(change).map(Action::Python),
                _ => None,
            };
            needed.into_iter().chain([action.clone()]).for_each(|action| add(&mut all, action, *index));
        }
    }
    for merged in &mut all {
        if let Action::Packages(change) = &mut merged.action {
            *change = change.clone().within_requirements();
        }
    }
    all.sort_by_key(|merged| merged.action.rank_and_kind().0);
    all
}

fn add(all: &mut Vec<Merged>, mut action: Action, index: usize) {
    match all.iter_mut().find_map(|merged| merge_actions(&mut merged.action, &mut action).then_some(merged)) {
        Some(merged) if merged.of.contains(&index) => {}
        Some(merged) => merged.of.push(index),
        None => all.push(Merged { action, of: vec![index] }),
    }
}

/// Merges the first action into the second if they are equal or change the same place, and returns whether that was
/// possible. The remedies must be compatible.
fn merge_actions(one: &mut Action, other: &mut Action) -> bool {
    if one == other {
        return true;
    }
    match (one, other) {
        (Action::Packages(one), Action::Packages(other)) if one.site.merged_with(&other.site).is_some() => {
            PackageChange::merge(one, other);
            true
        }
        (Action::Variable(one), Action::Variable(other)) => {
            let merge_variables = merge_variables(one, other).or_else(|| merge_variables(other, one));
            merge_variables.map(|merge_variables| *one = merge_variables).is_some()
        }
        // Avoid removing a file or directory twice.
        (Action::Remove(paths), Action::Remove(others)) => {
            others.retain(|other| !paths.iter().any(|path| other.starts_with(path)));
            others.is_empty()
        }
        _ => false,
    }
}

/// Returns a single change of a variable with the effect of both, if possible.
fn merge_variables(one: &Variable, other: &Variable) -> Option<Variable> {
    Some(match (one, other) {
        (Variable::Without { name, entries }, Variable::Without { name: other, entries: more }) if name == other => {
            let more = more.iter().filter(|other| !entries.contains(other));
            Variable::Without { name, entries: entries.iter().chain(more).cloned().collect() }
        }
        // Pasting one line would otherwise restore the entries that the other removes.
        (Variable::Set { name, value }, Variable::Without { name: other, entries }) if name == other => {
            Variable::Set { name: name.clone(), value: shell::kept_entries(name, value, entries) }
        }
        (Variable::Unset(name), Variable::Without { name: other, .. }) if name == other => one.clone(),
        // `Use` also sets this variable.
        (Variable::Use(dir), Variable::Set { name, value }) if name == DIR_VARIABLE && value == dir.as_os_str() => {
            one.clone()
        }
        _ => return None,
    })
}

/// Returns whether two remedies exclude each other, because one step would have to do two different things.
pub(super) fn contradict(one: &Remedy, other: &Remedy) -> bool {
    let contradict = |one: &Action, other: &Action| match (one, other) {
        _ if one == other => false,
        (Action::Packages(one), Action::Packages(other)) => is_same_place(one, other) && !one.is_compatible_with(other),
        (Action::Variable(one), Action::Variable(other)) => {
            let both = assignment(one).zip(assignment(other));
            both.is_some_and(|((name, value), (other, after))| name == other && value != after)
        }
        (Action::Remove(_), Action::Remove(_)) => false,
        (Action::Remove(paths), other) | (other, Action::Remove(paths)) => {
            let mut dirs = paths.iter().filter(|path| path.leads_to_dir() && !path.is_link());
            dirs.any(|dir| other.used_places().iter().any(|place| place.starts_with(dir)))
        }
        _ => {
            discriminant(one) == discriminant(other)
                && one.changed_places().iter().any(|one| other.changed_places().contains(one))
        }
    };
    one.actions.iter().any(|one| other.actions.iter().any(|other| contradict(one, other)))
}

fn is_same_place(one: &PackageChange, other: &PackageChange) -> bool {
    one.site.merged_with(&other.site).is_some() || one.site.dir().is_some_and(|dir| other.site.dir() == Some(dir))
}

/// Returns the name and the value of the assigned variable. `None` removes it.
fn assignment(variable: &Variable) -> Option<(&str, Option<&OsStr>)> {
    match variable {
        Variable::Set { name, value } => Some((name, Some(value))),
        Variable::Unset(name) => Some((name, None)),
        Variable::Use(dir) => Some((DIR_VARIABLE, Some(dir.as_os_str()))),
        Variable::Without { .. } | Variable::Search(_) => None,
    }
}

pub(super) fn changes(remedy: &Remedy) -> bool {
    remedy.actions.iter().any(|action| !matches!(action, Action::Inspect(_)))
}

#[cfg(test)]
mod tests {
    use cudnn_cli::command::Command;
    use cudnn_probe::Version;

    use super::*;

    #[test]
    fn two_changes_of_one_place_exclude_each_other() {
        let temporary = tempfile::tempdir().unwrap();
        let [dir, file] = ["dir", "file"].map(|name| temporary.path().join(name));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(&file, "").unwrap();
        let link = |dir: &str, minor| Action::Link { dir: dir.into(), version: Version::new(9, minor, 0) };
        let inspect = |program: &str| Action::Inspect(Command::new(program, [""; 0]));
        let remove = |path| Action::Remove(vec![path]);
        for (one, other, expected) in [
            (link("/a", 1), link("/a", 2), true),
            (link("/a", 1), link("/a", 1), false),
            (link("/a", 1), link("/b", 2), false),
            (link("/a", 1), Action::CreateDir("/a".into()), false),
            (remove(dir.clone()), Variable::Use(dir.join("lib")).into(), true),
            (remove(dir.clone()), Action::Python(dir.join("env")), true),
            (remove(dir.clone()), remove(dir.join("lib")), false),
            (remove(file.clone()), Action::Permit { path: file, is_dir: false }, false),
            (inspect("a"), inspect("b"), false),
        ] {
            let [one, other] = [one, other].map(|action| Remedy::new("").action(action));
            assert_eq!(contradict(&one, &other), expected, "{one:?} {other:?}");
            assert_eq!(contradict(&other, &one), expected, "{other:?} {one:?}");
        }
    }
}
