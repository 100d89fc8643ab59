//! Combines the remedies of all findings into one plan that works. The rules are in docs/design/doctor.md#plans.
//!
//! `search` chooses remedies, `simulate` predicts the machine after them, `merge` makes one list of steps, and `lines`
//! renders them. This module runs no commands.

mod effect;
mod line;
mod lines;
mod merge;
mod python;
mod records;
mod search;
mod simulate;

use std::collections::BTreeSet;

use cudnn_cli::escape::Printable;
use serde_json::{Value, json};

pub use effect::{Check, ForeseenEffect};
pub use line::Line;
pub use lines::{line_of, rendered};
pub(crate) use python::restore_python;
pub use search::PlanContext;
pub use simulate::facts_after;

use crate::check::{Finding, Severity};
use crate::remedy::{Action, Remedy};
use line::{Remark, Rendered};
use merge::Merged;
use search::{RemedyOutcome, SearchResult};

/// The recommended actions for all findings.
#[derive(Debug, Default)]
pub struct Plan {
    /// The steps that remove errors and warnings, in order.
    pub steps: Vec<Step>,
    /// The advice by finding.
    pub advice: Vec<Option<Advice>>,
    /// The codes of the errors and warnings that the steps leave or cause.
    pub remaining: BTreeSet<&'static str>,
}

/// One action of the plan, and the lines to run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The change that the step makes.
    pub action: Action,
    /// A short description of the step.
    pub title: String,
    /// The commands and shell lines that make the change, in order.
    pub lines: Vec<Line>,
    /// The codes of the findings that the step fixes or helps to fix.
    pub fixes: Vec<&'static str>,
    /// The requirements that the step breaks.
    pub note: Option<String>,
}

/// The advice of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The sentence with the advice.
    pub text: String,
    /// The lines to paste.
    pub commands: Vec<String>,
    /// One-based numbers of the corresponding plan steps.
    pub steps: Vec<usize>,
    /// The lines outside all steps.
    pub remaining: Vec<String>,
}

impl Plan {
    /// Makes a plan for these findings.
    pub fn of(findings: &[Finding], context: &PlanContext<'_>) -> Plan {
        let SearchResult { outcomes, parts, enough, left } = search::search(findings, context);
        let planned: Vec<(usize, &Remedy)> = parts.iter().map(|part| (part.of, &part.remedy)).collect();
        let commands = |index: usize| {
            let enough = enough.get(index).into_iter().flatten();
            commands_of(&enough.filter_map(|at| planned.get(*at).copied()).collect::<Vec<_>>())
        };
        let advice = |index: usize| advice_for(index, findings, &outcomes, commands(index));
        let mut advice: Vec<Option<Advice>> = (0..findings.len()).map(advice).collect();
        let mut steps: Vec<Step> = Vec::new();
        for Merged { action, of } in merge::merge(&planned) {
            let lines = lines::render(&action).lines;
            if matches!(action, Action::Inspect(_)) || lines.is_empty() {
                continue;
            }
            let is_fixed = |(index, outcome): &(usize, &RemedyOutcome)| match outcome {
                RemedyOutcome::FixedBy(by) | RemedyOutcome::FixedUpTo(by) => of.contains(by),
                _ => of.contains(index),
            };
            let fixed: Vec<usize> = outcomes.iter().enumerate().filter(is_fixed).map(|(index, _)| index).collect();
            for index in &fixed {
                let Some(Some(advice)) = advice.get_mut(*index) else { continue };
                advice.steps.push(steps.len() + 1);
                let actions = planned.iter().filter(|(of, _)| of == index).flat_map(|(_, remedy)| &remedy.actions);
                advice.remaining =
                    actions.filter(|action| matches!(action, Action::Inspect(_))).flat_map(lines_of).collect();
            }
            let fixes: BTreeSet<&str> =
                fixed.iter().filter_map(|index| Some(findings.get(*index)?.kind.code)).collect();
            let fixes = fixes.into_iter().collect();
            let note = broken_by(&action);
            steps.push(Step { title: lines::title(&action), action, lines, fixes, note });
        }
        Plan { steps, advice, remaining: remaining(findings, &outcomes, &left) }
    }

    /// Returns the plan for `--json`.
    pub fn value(&self) -> Value {
        Value::Array(self.steps.iter().map(Step::value).collect())
    }
}

impl Step {
    /// Returns the lines to paste.
    pub fn commands(&self) -> Vec<String> {
        self.lines.iter().map(ToString::to_string).collect()
    }

    fn value(&self) -> Value {
        let (_, kind) = self.action.rank_and_kind();
        json!({
            "title": self.title, "kind": kind, "commands": self.commands(), "fixes": self.fixes, "note": self.note,
        })
    }
}

fn broken_by(action: &Action) -> Option<String> {
    let Action::Packages(change) = action else { return None };
    let broken: Vec<String> = change.broken_requirements().iter().map(|one| one.printable()).collect();
    (!broken.is_empty()).then(|| format!("{}, which this step breaks", broken.join(", and ")))
}

fn remaining(findings: &[Finding], outcomes: &[RemedyOutcome], left: &[Finding]) -> BTreeSet<&'static str> {
    let is_fixed = |outcome: &RemedyOutcome| {
        matches!(outcome, RemedyOutcome::Planned { .. } | RemedyOutcome::FixedBy(_) | RemedyOutcome::FixedUpTo(_))
    };
    let (fixed, not_fixed): (Vec<_>, Vec<_>) =
        findings.iter().zip(outcomes).partition(|(_, outcome)| is_fixed(outcome));
    // A step with an unknown effect is assumed to work.
    let left = left.iter().filter(|left| !fixed.iter().any(|(finding, _)| finding.is_same(left)));
    let not_fixed = not_fixed.into_iter().map(|(finding, _)| finding);
    let all = not_fixed.chain(left).filter(|finding| finding.kind.severity > Severity::Note);
    all.map(|finding| finding.kind.code).collect()
}

/// Returns the advice for a finding, without the numbers of the steps. The commands fix the finding without the rest of
/// the plan.
fn advice_for(index: usize, findings: &[Finding], outcomes: &[RemedyOutcome], commands: Vec<String>) -> Option<Advice> {
    let finding = findings.get(index)?;
    let text = match outcomes.get(index)? {
        RemedyOutcome::Advice(remedy) => return remedy.as_ref().map(advice_of),
        RemedyOutcome::Refused(remedy) => return Some(advice_of(remedy)),
        RemedyOutcome::Planned { remedy, .. } => return Some(Advice { commands, ..advice_of(remedy) }),
        RemedyOutcome::FixedUpTo(by) => {
            format!("the steps up to those for {} fix this too:", findings.get(*by)?.name_for(finding))
        }
        RemedyOutcome::FixedBy(by) => {
            let by = findings.get(*by)?;
            let own = finding.remedy.as_ref();
            // Instructions for other packages or files would confuse.
            let of_shell = || own.filter(|own| own.is_of_shell()).map(|own| own.text.trim_end_matches(':'));
            match own.filter(|own| by.remedy.as_ref() == Some(*own)) {
                Some(own) => advice_of(own).text,
                None => {
                    let own = of_shell().map(|own| format!("{own}; ")).unwrap_or_default();
                    format!("{own}the remedy of {} fixes this too:", by.name_for(finding))
                }
            }
        }
    };
    Some(Advice { text, commands, ..Advice::default() })
}

fn commands_of(remedies: &[(usize, &Remedy)]) -> Vec<String> {
    let merged = merge::merge(remedies).into_iter();
    let lines = merged.flat_map(|merged| lines::render(&merged.action).lines);
    lines.map(|line| line.to_string()).collect()
}

/// Returns whether every action can be rendered as lines. A remedy is never executed in part.
fn is_possible(remedy: &Remedy) -> bool {
    merge::merge(&[(0, remedy)]).iter().all(|merged| !lines::render(&merged.action).lines.is_empty())
}

/// Renders one action as lines, after the actions that it needs.
pub fn lines_of(action: &Action) -> Vec<String> {
    commands_of(&[(0, &Remedy::new("").action(action.clone()))])
}

/// Returns the advice for a single remedy. For an impossible remedy, only commands that inspect the machine are
/// printed.
pub fn advice_of(remedy: &Remedy) -> Advice {
    let mut advice = Advice { text: remedy.text.clone(), ..Advice::default() };
    let mut all: Vec<Remark> = Vec::new();
    let is_possible = is_possible(remedy);
    for merged in merge::merge(&[(0, remedy)]) {
        let Rendered { lines, remarks } = lines::render(&merged.action);
        all.extend(remarks.into_iter().filter(|remark| !all.contains(remark)).collect::<Vec<_>>());
        if is_possible || matches!(merged.action, Action::Inspect(_)) {
            advice.commands.extend(lines.iter().map(ToString::to_string));
        }
    }
    advice.text = all.into_iter().fold(advice.text, |text, remark| remark.applied(text).printable());
    advice.remaining.clone_from(&advice.commands);
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::FRAMEWORK_PIN;
    use crate::remedy::Effect;

    #[test]
    #[cfg(all(test, target_os = "linux"))]
    fn the_owner_of_a_read_only_directory_is_told_to_open_it() {
        use crate::packages::{PackageChange, Site};
        use cudnn_probe::facts::Facts;

        let dir = tempfile::tempdir().unwrap();
        let site = |version: &str| dir.path().join(format!("lib/{version}/site-packages")).display().to_string();
        let program = dir.path().join("bin/python3.12");
        for file in ["bin/python3.12", "lib/python3.12/site-packages/pip/x", "lib/python3.11/site-packages/x"] {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let nvidia = format!("{}/nvidia", site("python3.12"));
        std::fs::create_dir_all(format!("{nvidia}/cudnn/lib")).unwrap();
        let wheel = "nvidia-cudnn-cu12";
        for (is_root, wanted, closed, expected) in [
            (false, "x", site("python3.12"), true),
            (true, "x", site("python3.12"), false),
            (false, "x", site("python3.11"), false),
            (false, "x", nvidia.clone(), false),
            (false, wheel, nvidia.clone(), true),
            (false, wheel, format!("{nvidia}/cudnn/lib"), true),
            (false, "nvidia-cuda-nvrtc-cu12", format!("{nvidia}/cudnn"), false),
        ] {
            let site = Site::Interpreter { program: program.clone(), root: dir.path().to_owned() };
            let remedy = Remedy::new("install it:").change(PackageChange::of(site).install([wanted]));
            let recorder = Facts::recorder();
            recorder.within(|| advice_of(&remedy));
            let mut answers = recorder.to_value();
            answers["root"][""] = is_root.into();
            for (question, answer) in [("owned by this user", true), ("writable", false)] {
                answers[question][&closed] = answer.into();
            }
            let advice = Facts::from_value(answers).unwrap().within(|| advice_of(&remedy));
            let advised = format!("but owns it: run `chmod u+rwx {closed}`, then install it");
            assert_eq!(advice.text.contains(&advised), expected, "{closed}: {advice:?}");
            assert!(!advice.commands.is_empty());
        }
    }

    #[test]
    fn another_finding_with_the_same_code_is_the_other_one() {
        let finding = |file: &str| {
            let removal = Action::Remove(vec![file.into()]);
            let remedy = Remedy::new("remove it:").effect(Effect::SameDir).action(removal);
            Finding { installation: Some("/x".into()), ..Finding::new(FRAMEWORK_PIN, file).remedy(remedy) }
        };
        let plan = Plan::of(&[finding("/x/a"), finding("/x/b")], &PlanContext::default());
        let texts: Vec<&str> = plan.advice.iter().flatten().map(|advice| advice.text.as_str()).collect();
        assert!(texts.last().is_some_and(|text| text.starts_with("fix the other C073 first, which ")), "{texts:?}");
    }
}
