//! Executes the steps of a plan up to the first failure.
//!
//! A step begins only if nothing has changed since the plan was made. docs/guide/fix.md says what a user can rely on.

mod refusal;
mod removal;
mod restore;
mod run;
mod scope;
mod snapshot;
mod state;
mod undo;

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::context::Context;
use crate::plan::{Plan, Step};
use crate::remedy::{Action, Variable};
use crate::shell::{self, SEARCH_PATH};
use cudnn_os::interruption::{Interruption, Signal};
use cudnn_probe::{DIR_VARIABLE, Requirements, check_dir};
use snapshot::Snapshot;
use state::State;
use undo::Before;

pub(crate) use removal::removed_by;
pub(crate) use restore::{clear, unfinished, was_interrupted};
pub(crate) use run::Output;
pub(crate) use undo::Undo;

/// A step that was executed, and how it is undone.
pub(crate) struct Done {
    pub(crate) title: String,
    pub(crate) undo: Undo,
}

/// Why not all steps were executed.
pub(crate) struct Stopped {
    /// The number of the step, from 0 on.
    pub(crate) step: usize,
    pub(crate) reason: String,
    /// How to undo what the step did before it failed.
    pub(crate) undo: Undo,
}

/// What was done.
#[derive(Default)]
pub(crate) struct Fixed {
    pub(crate) done: Vec<Done>,
    pub(crate) stopped: Option<Stopped>,
    /// The signal that would have ended the doctor.
    pub(crate) interrupted: Option<Signal>,
}

/// What the user allows, and is told.
pub(crate) struct Consent<'a> {
    /// May this step remove these files or packages?
    pub(crate) may_remove: &'a dyn Fn(&Step, &[String]) -> bool,
    /// A step begins.
    pub(crate) begin: &'a dyn Fn(usize, &Step),
    pub(crate) output: Output,
}

/// Executes the steps of a plan, but those that only a shell can do. A step that has begun is finished, whatever signal
/// ends the doctor.
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
        for (_, other, state) in &mut steps {
            state.after(&step.action, &other.action);
        }
    }
    fixed
}

/// How a step is undone; or why it was not finished, and how what it did is undone.
type StepResult = Result<Undo, (String, Undo)>;

/// Executes one step. Also returns the signal that arrived in the meantime.
fn execute_step(index: usize, step: &Step, planned: &State, consent: &Consent<'_>) -> (StepResult, Option<Signal>) {
    let objection = refusal::refusal(&step.action).or_else(|| {
        let removed = removed_by(&step.action);
        if !removed.is_empty() && !(consent.may_remove)(step, &removed) {
            let removed = removed.join(" and ");
            return Some(format!(
                "it removes {removed}, and that was not allowed: `fix --yes --remove` does so without a question"
            ));
        }
        // After the question, whose answer may take long.
        let has_changed = *planned != State::of(&step.action);
        has_changed.then(|| {
            "something has changed what this step is about since the plan was made: run `fix` again".to_owned()
        })
    });
    if let Some(reason) = objection {
        return (Err((reason, Undo::Nothing)), None);
    }
    // From here on, nothing ends the doctor before the step's end.
    let interruption = Interruption::catch();
    (consent.begin)(index, step);
    (run_step(step, consent.output), interruption.signal())
}

/// Runs the commands of a step. If one fails, the files are restored that were saved before the step.
fn run_step(step: &Step, output: Output) -> StepResult {
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
        (Err(reason), Some(snapshot)) => match snapshot.restore() {
            Ok(()) => Err((format!("{reason}; the environment is as before this step"), Undo::Nothing)),
            Err(error) => Err((format!("{reason}; cannot restore the environment: {error}"), undo)),
        },
    }
}

/// Is it for the shell that starts the programs?
pub(crate) fn is_of_shell(action: &Action) -> bool {
    matches!(action, Action::Variable(_))
}

/// The variables as the plan's lines for a shell leave them, for the check after the steps; `None` unsets one.
pub(crate) fn variables(plan: &Plan, context: &Context) -> Vec<(String, Option<OsString>)> {
    let mut variables: Vec<(String, Option<OsString>)> = Vec::new();
    for step in &plan.steps {
        let Action::Variable(variable) = &step.action else { continue };
        let current = |name: &str| {
            let known = variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            known.unwrap_or_else(|| std::env::var_os(name))
        };
        let first = |dir: &std::path::Path| {
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
                let candidates = context.search.under_root(dir);
                let usable = candidates.iter().find_map(|one| check_dir(one, &Requirements::default()).ok());
                let Some(found) = usable else { continue };
                vec![first(&found.dir), (DIR_VARIABLE.to_owned(), Some(found.dir.into_os_string()))]
            }
        };
        variables.extend(new);
    }
    variables
}
