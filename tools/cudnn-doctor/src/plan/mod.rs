//! Combines the remedies of all findings into one consistent plan.
//!
//! Contradicting remedies are deferred, package changes in one place are merged, and steps are ordered so that they
//! work. docs/design/0023-plan.md has the rules. This module runs no commands.

mod conflict;
mod line;
mod lines;
mod merge;
mod python;
#[cfg(test)]
mod random;
mod resolve;

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub(crate) use line::{Line, REMOVE_ITEM};
pub(crate) use lines::line_of;
pub(crate) use python::restore_python;
pub(crate) use resolve::PlanContext;

use crate::check::Finding;
use crate::escape::Printable;
use crate::remedy::{Action, Remedy};
use line::{Remark, Rendered};
use merge::Merged;

/// The recommended actions for all findings.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The steps that remove errors and warnings, in order.
    pub(crate) steps: Vec<Step>,
    /// The advice for each finding.
    pub(crate) advice: Vec<Option<Advice>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    /// A short description of the step.
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
    /// The codes of the findings that the step fixes or helps to fix.
    pub(crate) fixes: Vec<&'static str>,
}

/// The advice of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) text: String,
    /// The lines to paste.
    pub(crate) commands: Vec<String>,
    /// One-based numbers of the corresponding plan steps.
    pub(crate) steps: Vec<usize>,
    /// The lines outside all steps.
    pub(crate) remaining: Vec<String>,
}

impl Plan {
    /// Makes a plan for these findings.
    pub(crate) fn of(findings: &[Finding], context: &PlanContext<'_>) -> Plan {
        let remedies = resolve::resolve(findings, context);
        let mut advice: Vec<Option<Advice>> = remedies.iter().map(|remedy| remedy.as_ref().map(advice_of)).collect();
        let mut planned: Vec<(usize, &Remedy)> = Vec::new();
        for (index, (finding, remedy)) in findings.iter().zip(&remedies).enumerate() {
            let remedy = remedy.as_ref().filter(|remedy| resolve::is_planned(finding, remedy) && is_possible(remedy));
            planned.extend(remedy.map(|remedy| (index, remedy)));
        }
        let mut steps: Vec<Step> = Vec::new();
        for Merged { action, of, after } in merge::merge(&planned) {
            let lines = lines::render(&action, &after).lines;
            if matches!(action, Action::Inspect(_)) || lines.is_empty() {
                continue;
            }
            for (index, remedy) in planned.iter().filter(|(index, _)| of.contains(index)) {
                if let Some(Some(advice)) = advice.get_mut(*index) {
                    advice.steps.push(steps.len() + 1);
                    let looks = remedy.actions.iter().filter(|action| matches!(action, Action::Inspect(_)));
                    advice.remaining = looks.flat_map(lines_of).collect();
                }
            }
            let fixes: BTreeSet<&str> = of.iter().filter_map(|index| Some(findings.get(*index)?.kind.code)).collect();
            let fixes = fixes.into_iter().collect();
            steps.push(Step { title: lines::title(&action), action, lines, fixes });
        }
        Plan { steps, advice }
    }

    pub(crate) fn value(&self) -> Value {
        Value::Array(self.steps.iter().map(Step::value).collect())
    }
}

impl Step {
    /// Returns the lines to paste.
    pub(crate) fn commands(&self) -> Vec<String> {
        self.lines.iter().map(ToString::to_string).collect()
    }

    /// Returns the kind of place that the step changes: `packages`, `files`, `python`, `drop_in` or `shell`.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.action {
            Action::Packages(_) => "packages",
            Action::Python(_) => "python",
            Action::DropIn { .. } => "drop_in",
            Action::Variable(_) => "shell",
            _ => "files",
        }
    }

    fn value(&self) -> Value {
        json!({ "title": self.title, "kind": self.kind(), "commands": self.commands(), "fixes": self.fixes })
    }
}

/// Returns whether every action can be rendered as lines. A remedy is never executed in part.
fn is_possible(remedy: &Remedy) -> bool {
    merge::merge(&[(0, remedy)]).iter().all(|merged| {
        matches!(merged.action, Action::Inspect(_)) || !lines::render(&merged.action, &merged.after).lines.is_empty()
    })
}

/// Renders one action as lines.
pub(crate) fn lines_of(action: &Action) -> Vec<String> {
    lines::render(action, &[]).lines.iter().map(ToString::to_string).collect()
}

/// Returns the advice for a single remedy.
pub(crate) fn advice_of(remedy: &Remedy) -> Advice {
    let mut advice = Advice { text: remedy.text.clone(), ..Advice::default() };
    let mut all: Vec<Remark> = Vec::new();
    for merged in merge::merge(&[(0, remedy)]) {
        let Rendered { lines, remarks } = lines::render(&merged.action, &merged.after);
        all.extend(remarks.into_iter().filter(|remark| !all.contains(remark)).collect::<Vec<_>>());
        advice.commands.extend(lines.iter().map(ToString::to_string));
    }
    advice.text = all.into_iter().fold(advice.text, |text, remark| remark.applied(text).printable());
    advice.remaining.clone_from(&advice.commands);
    advice
}
