//! Merges the actions of several remedies into an ordered list of steps. Equal actions become one step, and so do all
//! package changes in one place.

use cudnn_probe::DIR_VARIABLE;

use super::python;
use crate::packages::PackageChange;
use crate::remedy::{Action, Remedy, Variable};
use crate::shell;

/// An action shared by one or more remedies.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) action: Action,
    /// The indices of these remedies.
    pub(super) of: Vec<usize>,
    /// Actions that run earlier and that this one may rely on.
    pub(super) after: Vec<Action>,
}

/// Merges these remedies, which are given with their indices.
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
    all.sort_by_key(|merged| rank(&merged.action));
    let mut before: Vec<Action> = Vec::new();
    for merged in &mut all {
        merged.after.clone_from(&before);
        before.push(merged.action.clone());
    }
    all
}

fn add(all: &mut Vec<Merged>, mut action: Action, index: usize) {
    match all.iter_mut().find_map(|merged| merge_actions(&mut merged.action, &mut action).then_some(merged)) {
        Some(merged) if merged.of.contains(&index) => {}
        Some(merged) => merged.of.push(index),
        None => all.push(Merged { action, of: vec![index], after: Vec::new() }),
    }
}

/// Merges the first action into the second if they are equal or change the same place. Returns whether they were
/// merged. Otherwise both are left unchanged. The remedies must not contradict each other.
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
        (Action::Remove { paths, .. }, Action::Remove { paths: others, .. }) => {
            others.retain(|other| !paths.iter().any(|path| other.starts_with(path)));
            others.is_empty()
        }
        _ => false,
    }
}

/// Returns a single change of a variable that has the effect of both, if possible.
fn merge_variables(one: &Variable, other: &Variable) -> Option<Variable> {
    Some(match (one, other) {
        (Variable::Without { name, entries }, Variable::Without { name: other, entries: more }) if name == other => {
            let more = more.iter().filter(|other| !entries.contains(other));
            Variable::Without { name, entries: entries.iter().chain(more).cloned().collect() }
        }
        // Pasting the line of one would restore the entries that the other removes.
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

/// Returns the position in the plan. Permissions come first because installers need them. Shell lines come last
/// because they may need installed packages.
fn rank(action: &Action) -> u32 {
    match action {
        Action::Permit { .. } => 0,
        Action::Python(_) => 1,
        Action::Remove { .. } => 2,
        Action::Packages(_) => 3,
        Action::Link { .. } | Action::NameByLink(_) => 4,
        Action::Ldconfig => 5,
        Action::CreateDir(_) => 6,
        Action::DropIn { .. } => 7,
        Action::Variable(Variable::Without { .. } | Variable::Set { .. } | Variable::Unset(_)) => 8,
        Action::Variable(Variable::Search(_) | Variable::Use(_)) => 9,
        Action::Inspect(_) => 10,
    }
}
