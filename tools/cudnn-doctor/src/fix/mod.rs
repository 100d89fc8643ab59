//! Executes the steps of a plan until one of them fails.
//!
//! A step runs only if the files it depends on are unchanged since the plan was made. docs/guide/fix.md describes
//! these guarantees for users.

mod journal;
mod refusal;
mod removal;
mod restore;
mod run;
mod scope;
mod snapshot;
mod state;
mod undo;
mod undo_dir;
mod unfinished;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::plan::{Line, Plan, Step};
use crate::remedy::{Action, Variable};
use crate::shell::{self, SEARCH_PATH};
use cudnn_os::interruption::{Interruption, Signal};
use cudnn_probe::{DIR_VARIABLE, Requirements, check_dir};
use snapshot::Snapshot;
use state::State;
use undo::Before;

pub(crate) use removal::removed_by;
pub(crate) use run::Output;
pub(crate) use undo::Undo;
pub(crate) use unfinished::{Earlier, clear, earlier_step, unfinished};

/// An executed step, with the way to undo it.
pub(crate) struct Done {
    pub(crate) title: String,
    pub(crate) undo: Undo,
}

/// Describes why execution stopped before the last step.
pub(crate) struct Stopped {
    /// Zero-based index of the step.
    pub(crate) step: usize,
    pub(crate) reason: String,
    /// How to undo the changes that the step made before it failed.
    pub(crate) undo: Undo,
}

/// The result of executing a plan.
#[derive(Default)]
pub(crate) struct Fixed {
    pub(crate) done: Vec<Done>,
    pub(crate) stopped: Option<Stopped>,
    /// The signal that interrupted the doctor, if any.
    pub(crate) interrupted: Option<Signal>,
}

/// Callbacks that ask the user for permission and report progress.
pub(crate) struct Consent<'a> {
    /// Returns whether this step may remove these files or packages.
    pub(crate) may_remove: &'a dyn Fn(&Step, &[String]) -> bool,
    /// Called when a step starts.
    pub(crate) begin: &'a dyn Fn(usize, &Step),
    pub(crate) output: Output,
}

/// Executes all steps of a plan except the lines that only the user's shell can run. If a signal arrives, the current
/// step is finished before the doctor exits.
pub(crate) fn execute(plan: &Plan, consent: &Consent<'_>) -> Fixed {
    let mut fixed = Fixed::default();
    let steps = plan.steps.iter().enumerate().filter(|(_, step)| !is_of_shell(&step.action));
    let mut steps: VecDeque<(usize, &Step, State)> =
        steps.map(|(index, step)| (index, step, State::of(&step.action))).collect();
    while let Some((index, step, planned)) = steps.pop_front() {
        let (result, signal) = execute_step(index, step, &planned, consent);
        fixed.interrupted = signal;
        match result {
            Ok(undo) => fixed.done.push(Done { title: step.title.clone(), undo }),
            Err((reason, undo)) => {
                fixed.stopped = Some(Stopped { step: index, reason, undo });
                break;
            }
        }
        if signal.is_some() {
            let stopped = |step| Stopped { step, reason: "the doctor was interrupted".to_owned(), undo: Undo::Nothing };
            fixed.stopped = steps.front().map(|(next, ..)| stopped(*next));
            break;
        }
        for (.., state) in &mut steps {
            state.after(&step.action);
        }
    }
    fixed
}

/// How to undo the step. On failure, the reason and how to undo partial changes.
type StepResult = Result<Undo, (String, Undo)>;

/// Executes one step. Also returns the signal that arrived while it was running.
fn execute_step(index: usize, step: &Step, planned: &State, consent: &Consent<'_>) -> (StepResult, Option<Signal>) {
    let of_scope = match &step.action {
        Action::Packages(change) => scope::objection(change),
        _ => None,
    };
    let objection = refusal::refusal(&step.action).or(of_scope).or_else(|| {
        let removed = removed_by(&step.action);
        if !removed.is_empty() && !(consent.may_remove)(step, &removed) {
            let removed = removed.join(" and ");
            return Some(format!(
                "it removes {removed}, which was not allowed: `fix --yes --remove` does so without asking"
            ));
        }
        // Checked after asking the user, because the answer may take a long time.
        planned.has_changed().then(|| {
            "something that this step depends on has changed since the plan was made: run `fix` again".to_owned()
        })
    });
    if let Some(reason) = objection {
        return (Err((reason, Undo::Nothing)), None);
    }
    // From here on, signals are held back until the step has finished.
    let mut interruption = Some(Interruption::catch());
    let signal = |interruption: &Option<Interruption>| interruption.as_ref().and_then(Interruption::signal);
    (consent.begin)(index, step);
    let result = run_step(step, consent.output, |left| {
        if signal(&interruption).is_some() {
            return false;
        }
        // Ctrl-C ends the doctor while it waits for an answer.
        drop(interruption.take());
        let is_allowed = (consent.may_remove)(step, left);
        interruption = Some(Interruption::catch());
        is_allowed
    });
    (result, signal(&interruption))
}

/// Runs the commands of a step. If a command fails, the files saved before the step are restored, and the function asks
/// whether to remove the added files with these descriptions.
fn run_step(step: &Step, output: Output, may_remove: impl FnOnce(&[String]) -> bool) -> StepResult {
    let saved = match &step.action {
        Action::Packages(change) => Snapshot::take(change, &step.title),
        _ => Ok(None),
    };
    let snapshot = saved.map_err(|reason| (reason, Undo::Nothing))?;
    let before = Before::of(&step.action);
    let result = step.lines.iter().try_for_each(|line| run::run(line, output, snapshot.as_ref()));
    let undo = before.undo(&step.action);
    match (result, snapshot) {
        (Ok(()), None) => Ok(undo),
        (Ok(()), Some(snapshot)) => match snapshot.discard() {
            Ok(()) => Ok(undo),
            Err(error) => Err((format!("cannot remove the files that were saved before it: {error}"), undo)),
        },
        (Err(reason), None) => Err((reason, undo)),
        (Err(reason), Some(snapshot)) => match snapshot.undo(may_remove) {
            Ok(left) => Err((
                format!("{reason}; the environment was restored to its state before this step{}", except(&left)),
                Undo::Nothing,
            )),
            Err(error) => Err((format!("{reason}; cannot restore the environment: {error}"), undo)),
        },
    }
}

/// Describes the added files that remain after a step was undone.
pub(crate) fn except(left: &[String]) -> String {
    if left.is_empty() {
        String::new()
    } else {
        format!(", except for these added files, which remain: {}", left.join(", "))
    }
}

/// Returns whether the action must be pasted into the shell that starts the user's programs.
pub(crate) fn is_of_shell(action: &Action) -> bool {
    matches!(action, Action::Variable(_))
}

/// Returns the variables as they will be after the user pastes the plan's shell lines, for the check that follows the
/// steps. `None` means unset.
pub(crate) fn variables(plan: &Plan, context: &Context) -> Vec<(String, Option<OsString>)> {
    let mut variables: Vec<(String, Option<OsString>)> = Vec::new();
    for step in &plan.steps {
        let Action::Variable(variable) = &step.action else { continue };
        let current = |name: &str| {
            let known = variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            known.unwrap_or_else(|| std::env::var_os(name))
        };
        let first = |dir: &Path| {
            let dir = shell::name_for_search(dir);
            let rest = current(SEARCH_PATH).unwrap_or_default();
            let mut value = dir.into_os_string();
            if !rest.is_empty() {
                value.push(shell::SEPARATOR.encode_utf8(&mut [0; 4]));
                value.push(rest);
            }
            (SEARCH_PATH.to_owned(), Some(value))
        };
        let new = match variable {
            Variable::Set { name, value } => vec![(name.clone(), Some(value.clone()))],
            Variable::Unset(name) => vec![(name.clone(), None)],
            Variable::Without { name, entries } => {
                let kept = shell::kept_entries(name, &current(name).unwrap_or_default(), entries);
                vec![((*name).to_owned(), Some(kept).filter(|kept| !kept.is_empty()))]
            }
            Variable::Search(dir) => vec![first(dir)],
            Variable::Use(dir) => {
                let Some(dir) = usable_below(dir, context) else { continue };
                vec![first(&dir), (DIR_VARIABLE.to_owned(), Some(dir.into_os_string()))]
            }
        };
        variables.extend(new);
    }
    variables
}

/// Returns the directory that `env` selects below this root.
fn usable_below(root: &Path, context: &Context) -> Option<PathBuf> {
    let candidates = context.search.under_root(root);
    candidates.iter().find_map(|one| check_dir(one, &Requirements::default()).ok()).map(|found| found.dir)
}

/// Creates the links that the plan's shell lines also create, because the final check needs them.
pub(crate) fn create_links(plan: &Plan, context: &Context, output: Output) {
    let dirs = plan.steps.iter().filter_map(|step| match &step.action {
        Action::Variable(Variable::Search(dir)) => Some(dir.clone()),
        Action::Variable(Variable::Use(dir)) => usable_below(dir, context),
        _ => None,
    });
    for link in dirs.filter(|dir| shell::search_first(dir).is_none()).filter_map(|dir| shell::link_to(&dir)) {
        // Without the link, the check reports the problem again.
        let _ = run::run(&Line::Run(link.commands), output, None);
    }
}
