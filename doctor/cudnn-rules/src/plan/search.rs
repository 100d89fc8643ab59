//! Searches for the remedies that together fix the findings.
//!
//! Every combination is simulated, and the checks run on the result. A remedy must remove the finding without a new one
//! of the same severity. Remedies of new findings may follow. Unknown effects, for example of changed permissions, are
//! assumed to work.

use std::cell::RefCell;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::facts::{Changes, Facts};

use super::is_possible;
use super::merge::{self, Merged};
use super::simulate::SimulatedMachine;
use crate::check::finding::{FRAMEWORK_MIX, LD_SO_MIX, LINKED_MIX};
use crate::check::{Finding, FindingKind, Severity};
use crate::packages::forbidding;
use crate::remedy::{Action, Effect, Remedy, Variable};

/// Limits of the further orders of findings to try, and of the findings in a plan. Both multiply the checks of
/// simulated machines.
const MAX_ORDERS: usize = 3;
const MAX_FINDINGS: usize = 24;

/// The maximum number of remedies that follow one remedy.
const MAX_FOLLOWING: usize = 5;

/// Mixes of two installations. Repairing the files of one may fix them, because ld.so continues the search after a
/// missing or damaged file.
const MIXES: [FindingKind; 3] = [LD_SO_MIX, LINKED_MIX, FRAMEWORK_MIX];

/// The inputs of the search in addition to the findings.
#[derive(Clone, Copy, Default)]
pub struct PlanContext<'a> {
    /// The directory of the installation that the requested program finds, and whether it belongs to a cuDNN package.
    pub program: Option<(&'a Path, bool)>,
    /// Whether the loader's variable names a directory.
    pub is_dir_named: bool,
    /// Derives the findings from the active facts again, without running anything.
    pub check: Option<&'a dyn Fn() -> Vec<Finding>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RemedyOutcome {
    Advice(Option<Remedy>),
    /// The remedy would not work, or do harm. It is replaced by this one.
    Refused(Remedy),
    /// The plan contains this remedy. If `is_alone` is true, an unverifiable remedy is assumed to work without the
    /// remedies of earlier findings.
    Planned {
        remedy: Remedy,
        is_alone: bool,
    },
    /// The remedies of the finding with this index fix it.
    FixedBy(usize),
    /// The remedies of the findings up to this index together fix it.
    FixedUpTo(usize),
}

/// A remedy in the plan, with the index of the finding that it fixes or helps to fix.
#[derive(Clone, Debug)]
pub(super) struct PlannedRemedy {
    pub(super) of: usize,
    pub(super) remedy: Remedy,
    /// Whether the finding needs it. Otherwise, it fixes a finding that other remedies cause.
    pub(super) is_needed: bool,
    /// Whether the simulation knows the state after the remedy.
    is_known: bool,
}

enum Objection {
    /// It changes the same as the remedy of this finding.
    Contradicts(usize),
    /// The remedy of this finding changes the installation in an unknown way.
    Waits(usize),
    DoesNotHelp,
    LeadsTo(Box<Finding>),
}

struct PlanSearch<'a> {
    findings: &'a [Finding],
    context: &'a PlanContext<'a>,
    before: Facts,
    /// The findings without any step, as far as the checks find them without running anything.
    start: Vec<Finding>,
    parts: Vec<PlannedRemedy>,
    left: Vec<Finding>,
    checked: &'a RefCell<Vec<Checked>>,
}

/// Remedies and the findings after them, cached because the search repeats combinations.
type Checked = (Vec<Remedy>, Vec<Finding>);

pub(super) struct SearchResult {
    pub(super) outcomes: Vec<RemedyOutcome>,
    pub(super) parts: Vec<PlannedRemedy>,
    /// The indices of remedies that fix a finding without the rest of the plan, by finding.
    pub(super) enough: Vec<Vec<usize>>,
    /// The known findings after the plan.
    pub(super) left: Vec<Finding>,
}

/// Searches for the best plan. Remedies are tried in the order of the findings. If one is refused because of an earlier
/// one, another attempt starts with it.
pub(super) fn search(findings: &[Finding], context: &PlanContext<'_>) -> SearchResult {
    if !findings.iter().any(|finding| finding.remedy.as_ref().is_some_and(is_executable)) {
        let adapt = |finding: &Finding| finding.remedy.as_ref().map(|remedy| adapted(remedy, finding, context));
        let outcomes = findings.iter().map(|finding| RemedyOutcome::Advice(adapt(finding))).collect();
        return SearchResult {
            outcomes,
            parts: Vec::new(),
            enough: vec![Vec::new(); findings.len()],
            left: Vec::new(),
        };
    }
    let before = Facts::active().unwrap_or_default();
    // Without changes, recorded answers stay valid.
    let start = context.check.map(|check| before.after(Changes::default()).within(check)).unwrap_or_default();
    let checked = RefCell::default();
    let in_order = |order: &[usize]| {
        let (before, start, left) = (before.clone(), start.clone(), start.clone());
        let mut search = PlanSearch { findings, context, before, start, left, parts: Vec::new(), checked: &checked };
        let outcomes = search.take(order);
        (search, outcomes)
    };
    let order: Vec<usize> = (0..findings.len()).collect();
    let (mut best, mut outcomes) = in_order(&order);
    let refused: Vec<usize> = order.iter().copied().filter(|index| is_refused(outcomes.get(*index))).collect();
    for first in refused.into_iter().take(MAX_ORDERS) {
        let others = order.iter().copied().filter(|index| *index != first);
        let (other, of_other) = in_order(&std::iter::once(first).chain(others).collect::<Vec<_>>());
        if other.cost(&of_other) < best.cost(&outcomes) {
            (best, outcomes) = (other, of_other);
        }
    }
    let enough = order.iter().map(|index| best.enough(*index, &outcomes)).collect();
    SearchResult { enough, left: best.after(&best.parts), parts: best.parts, outcomes }
}

fn is_refused(outcome: Option<&RemedyOutcome>) -> bool {
    matches!(outcome, Some(RemedyOutcome::Refused(_)))
}

/// Returns whether a remedy belongs in the plan. Notes are only advice, and the user must start manual work.
fn is_planned(finding: &Finding, remedy: &Remedy) -> bool {
    finding.kind.severity > Severity::Note && is_executable(remedy)
}

fn is_executable(remedy: &Remedy) -> bool {
    !remedy.is_by_hand && is_possible(remedy) && merge::changes(remedy)
}

fn is_forbidden(remedy: &Remedy) -> bool {
    remedy.changes().any(|change| forbidding(change).is_some())
}

impl PlanSearch<'_> {
    /// Returns the numbers of refused errors and warnings, then the length of the plan.
    fn cost(&self, outcomes: &[RemedyOutcome]) -> (usize, usize, usize) {
        let refused = |severity: Severity| {
            let all = outcomes.iter().zip(self.findings);
            all.filter(|(outcome, finding)| is_refused(Some(outcome)) && finding.kind.severity == severity).count()
        };
        (refused(Severity::Error), refused(Severity::Warning), self.parts.len())
    }

    /// Chooses the fewest remedies of the plan that fix a finding without a new error.
    fn enough(&self, index: usize, outcomes: &[RemedyOutcome]) -> Vec<usize> {
        let is_alone =
            |index: usize| matches!(outcomes.get(index), Some(RemedyOutcome::Planned { is_alone: true, .. }));
        let (of, is_alone) = match outcomes.get(index) {
            Some(RemedyOutcome::Planned { .. }) => (index, is_alone(index)),
            Some(RemedyOutcome::FixedBy(by)) => (*by, is_alone(*by)),
            Some(RemedyOutcome::FixedUpTo(by)) => (*by, false),
            _ => return Vec::new(),
        };
        let last = self.parts.iter().rposition(|part| part.of == of);
        let where_true = |is_chosen: &dyn Fn(usize, &PlannedRemedy) -> bool| -> Vec<usize> {
            let all = self.parts.iter().enumerate();
            all.filter(|(at, part)| is_chosen(*at, part)).map(|(at, _)| at).collect()
        };
        let own = where_true(&|_, part| part.of == of && part.is_needed);
        let before = where_true(&|at, part| Some(at) <= last && part.is_needed);
        let unverified = if is_alone { &own } else { &before };
        let Some(finding) = self.findings.get(index).filter(|finding| self.is_foreseeable(finding)) else {
            return unverified.clone();
        };
        let with_following = where_true(&|_, part| part.of == of);
        let all_before = where_true(&|at, _| Some(at) <= last);
        let choices = [&own, &with_following, &before, &all_before, &where_true(&|_, _| true)];
        let parts = |choice: &[usize]| -> Vec<PlannedRemedy> {
            choice.iter().filter_map(|at| self.parts.get(*at)).cloned().collect()
        };
        if parts(unverified).iter().any(|part| !part.is_known) {
            return unverified.clone();
        }
        let is_enough = |choice: &&&Vec<usize>| {
            let left = self.after(&parts(choice));
            // Warnings can be fixed next.
            let is_harmless = |after: &Finding| after.kind.severity < Severity::Error || self.was_there(after);
            !is_among(finding, &left) && left.iter().all(is_harmless)
        };
        (*choices.iter().find(is_enough).unwrap_or(&&before)).clone()
    }

    /// Tries the remedies of the findings in this order, and returns the outcomes in the order of the findings.
    fn take(&mut self, order: &[usize]) -> Vec<RemedyOutcome> {
        let mut outcomes = vec![RemedyOutcome::Advice(None); self.findings.len()];
        for index in order {
            self.take_one(*index, &mut outcomes);
        }
        // Later remedies may help the refused ones.
        for index in order.iter().filter(|index| is_refused(outcomes.get(**index))).collect::<Vec<_>>() {
            self.take_one(*index, &mut outcomes);
        }
        self.leave_out(&mut outcomes);
        for (finding, outcome) in self.findings.iter().zip(&mut outcomes) {
            self.review_note(finding, outcome);
        }
        outcomes
    }

    /// Adapts the commands of a note, which the user may also run, to the machine after the plan. Drops commands that
    /// would lead to an error.
    fn review_note(&self, finding: &Finding, outcome: &mut RemedyOutcome) {
        let is_note = finding.kind.severity == Severity::Note;
        let RemedyOutcome::Advice(Some(remedy)) = outcome else { return };
        if !is_note || !is_executable(remedy) || !self.is_foreseeable(finding) {
            return;
        }
        let left = self.after(&self.parts);
        let now = left.iter().find(|left| left.is_same(finding));
        // Without an installation, a change of the message looks like a solution.
        if now.is_none()
            && finding.installation.is_some()
            && let Some(by) = self.parts.iter().find(|part| self.is_fixed_by(finding, part.of))
        {
            *outcome = RemedyOutcome::FixedBy(by.of);
            return;
        }
        let now = now.and_then(|now| now.remedy.as_ref()).map(|remedy| adapted(remedy, finding, self.context));
        let remedy = now.unwrap_or_else(|| remedy.clone());
        let mut parts = self.parts.clone();
        parts.push(self.part(usize::MAX, remedy.clone(), false));
        let is_new_error = |after: &&Finding| after.kind.severity == Severity::Error && !self.was_there(after);
        *outcome = RemedyOutcome::Advice(Some(match self.after(&parts).iter().find(is_new_error) {
            Some(harm) => self.explain(finding, &Objection::LeadsTo(Box::new(harm.clone())), remedy),
            None => remedy,
        }));
    }

    fn take_one(&mut self, index: usize, outcomes: &mut [RemedyOutcome]) {
        let (Some(finding), Some(outcome)) = (self.findings.get(index), outcomes.get_mut(index)) else { return };
        let remedy = finding.remedy.as_ref().map(|remedy| adapted(remedy, finding, self.context));
        let is_planned = remedy.as_ref().is_some_and(|remedy| is_planned(finding, remedy));
        *outcome = match remedy {
            Some(_) if is_planned && index >= MAX_FINDINGS => {
                let text = format!("follow the other advice first; then run `{} check` again", doctor());
                RemedyOutcome::Refused(Remedy::new(text))
            }
            Some(remedy) if is_planned => self.consider(index, remedy),
            // Another remedy may fix the finding, in particular a later one.
            Some(remedy) if finding.kind.severity > Severity::Note && is_forbidden(&remedy) => {
                self.fixed_already(finding, &remedy).unwrap_or(RemedyOutcome::Refused(remedy))
            }
            remedy => RemedyOutcome::Advice(remedy),
        };
    }

    fn consider(&mut self, index: usize, remedy: Remedy) -> RemedyOutcome {
        let Some(finding) = self.findings.get(index) else { return RemedyOutcome::Advice(Some(remedy)) };
        if let Some(outcome) = self.fixed_already(finding, &remedy) {
            return outcome;
        }
        // The steps so far may have changed the remedy.
        let now = self.left.iter().find(|left| left.is_same(finding)).and_then(|left| left.remedy.as_ref());
        let now = now.map(|remedy| adapted(remedy, finding, self.context)).filter(|remedy| is_planned(finding, remedy));
        let is_changed = now.as_ref().is_some_and(|now| *now != remedy);
        let remedy = now.unwrap_or(remedy);
        let mut parts = self.parts.clone();
        parts.push(self.part(index, remedy.clone(), true));
        match self.attempt(parts, MAX_FOLLOWING) {
            Ok((parts, left)) => {
                let is_alone = self.parts.is_empty() || !is_changed;
                (self.parts, self.left) = (parts, left);
                RemedyOutcome::Planned { remedy, is_alone }
            }
            Err(refusal) => RemedyOutcome::Refused(self.explain(finding, &refusal, remedy)),
        }
    }

    /// Returns the outcome for a finding that the steps so far have fixed.
    fn fixed_already(&self, finding: &Finding, remedy: &Remedy) -> Option<RemedyOutcome> {
        if !self.is_foreseeable(finding) || is_among(finding, &self.left) {
            return None;
        }
        let mut with_same = self.parts.iter().filter(|part| part.remedy == *remedy);
        let fixing = || self.parts.iter().find(|part| self.is_fixed_by(finding, part.of));
        if let Some(by) = with_same.next().or_else(fixing) {
            return Some(RemedyOutcome::FixedBy(by.of));
        }
        let is_enough = |count: &usize| !is_among(finding, &self.after(self.parts.get(..*count).unwrap_or_default()));
        let last = (1..=self.parts.len()).find(is_enough).and_then(|count| self.parts.get(count - 1));
        last.map(|last| RemedyOutcome::FixedUpTo(last.of))
    }

    /// Returns whether the checks find this without running anything.
    fn is_foreseeable(&self, finding: &Finding) -> bool {
        is_among(finding, &self.start)
    }

    fn is_fixed_by(&self, finding: &Finding, by: usize) -> bool {
        let parts: Vec<PlannedRemedy> = self.parts.iter().filter(|part| part.of == by).cloned().collect();
        !is_among(finding, &self.after(&parts))
    }

    fn part(&self, of: usize, remedy: Remedy, is_needed: bool) -> PlannedRemedy {
        let mut part = PlannedRemedy { of, remedy, is_needed, is_known: false };
        part.is_known = self.context.check.is_some() && self.simulate(std::slice::from_ref(&part)).1;
        part
    }

    fn simulate(&self, parts: &[PlannedRemedy]) -> (Facts, bool) {
        let remedies: Vec<(usize, &Remedy)> = parts.iter().map(|part| (part.of, &part.remedy)).collect();
        let mut simulation = SimulatedMachine::new(self.before.clone());
        let mut is_known = true;
        for Merged { action, .. } in self.before.within(|| merge::merge(&remedies)) {
            is_known &= simulation.take(&action).is_ok();
        }
        (simulation.facts(), is_known)
    }

    /// Returns the findings after the remedies with known effects.
    fn after(&self, parts: &[PlannedRemedy]) -> Vec<Finding> {
        let Some(check) = self.context.check else { return Vec::new() };
        let known: Vec<PlannedRemedy> = parts.iter().filter(|part| part.is_known).cloned().collect();
        if known.is_empty() {
            return self.start.clone();
        }
        let remedies: Vec<Remedy> = known.iter().map(|part| part.remedy.clone()).collect();
        if let Some((_, left)) = self.checked.borrow().iter().find(|(checked, _)| *checked == remedies) {
            return left.clone();
        }
        let left = match self.simulate(&known) {
            (facts, true) => facts.within(check),
            // Only the combination is unknown, so the plan should not contain it.
            _ => self.start.clone(),
        };
        self.checked.borrow_mut().push((remedies, left.clone()));
        left
    }

    /// Tries these remedies with a new one at the end. Returns them with the remedies that have to follow, and the
    /// findings afterwards.
    fn attempt(
        &self,
        parts: Vec<PlannedRemedy>,
        following: usize,
    ) -> Result<(Vec<PlannedRemedy>, Vec<Finding>), Objection> {
        let Some((new, earlier)) = parts.split_last() else { return Ok((parts, self.start.clone())) };
        if let Some(before) = earlier.iter().find(|before| merge::contradict(&before.remedy, &new.remedy)) {
            return Err(Objection::Contradicts(before.of));
        }
        if let Some(before) = earlier.iter().find(|before| self.waits(new, before)) {
            return Err(Objection::Waits(before.of));
        }
        let left = self.after(&parts);
        let mut known = parts.iter().filter(|part| part.is_known);
        let remaining = known.find_map(|part| {
            let finding = self.findings.get(part.of).filter(|finding| self.is_foreseeable(finding))?;
            left.iter().find(|left| left.is_same(finding))
        });
        let added = left.iter().find(|left| left.kind.severity > Severity::Note && !self.was_there(left));
        let fixed = self.findings.get(new.of).map_or(Severity::Note, |finding| finding.kind.severity);
        let is_better = remaining.is_none() && added.is_some_and(|added| added.kind.severity < fixed);
        let Some(cause) = remaining.or(added) else { return Ok((parts, left)) };
        let refusal = || match remaining {
            Some(_) => Objection::DoesNotHelp,
            None => Objection::LeadsTo(Box::new(cause.clone())),
        };
        let next = cause.remedy.as_ref().map(|remedy| adapted(remedy, cause, self.context));
        let next = next.filter(|next| is_planned(cause, next) && !parts.iter().any(|part| part.remedy == *next));
        let followed = next.zip(following.checked_sub(1)).and_then(|(next, following)| {
            let mut parts = parts.clone();
            parts.push(self.part(new.of, next, remaining.is_some()));
            self.attempt(parts, following).ok()
        });
        match followed {
            Some(followed) => Ok(followed),
            None if is_better => Ok((parts, left)),
            None => Err(refusal()),
        }
    }

    /// Returns whether there was such an error or warning before, or one was accepted.
    fn was_there(&self, finding: &Finding) -> bool {
        let is_it = |before: &&Finding| before.is_same(finding) && before.kind.severity >= finding.kind.severity;
        self.findings.iter().chain(&self.start).chain(&self.left).any(|before| is_it(&before))
    }

    /// Returns whether a remedy has to wait for an earlier remedy that changes the same installation in an unknown way.
    fn waits(&self, new: &PlannedRemedy, before: &PlannedRemedy) -> bool {
        let [Some(finding), Some(first)] = [new.of, before.of].map(|of| self.findings.get(of)) else { return false };
        let is_about_same = finding.installation.is_some() && finding.installation == first.installation;
        let is_foreseen = before.is_known && self.is_foreseeable(finding);
        let is_changed = before.remedy.effect != Effect::Other && !is_foreseen;
        let is_affected = before.remedy.effect == Effect::OtherDir
            || new.remedy.effect != Effect::Other
            || new.remedy.installs() && !before.remedy.only_reinstalls()
            || MIXES.iter().any(|kind| kind.code == finding.kind.code);
        is_about_same && is_changed && is_affected && new.remedy != before.remedy
    }

    /// Leaves out remedies that later ones made unnecessary. A package outlasts a variable, which never replaces one.
    fn leave_out(&mut self, outcomes: &mut [RemedyOutcome]) {
        let mut indices: Vec<usize> = self.parts.iter().map(|part| part.of).collect();
        indices.dedup();
        for index in indices {
            let Some(finding) = self.findings.get(index).filter(|finding| self.is_foreseeable(finding)) else {
                continue;
            };
            let others: Vec<PlannedRemedy> = self.parts.iter().filter(|part| part.of != index).cloned().collect();
            let left = self.after(&others);
            let is_as_good = left.iter().all(|left| left.kind.severity == Severity::Note || is_among(left, &self.left));
            if !is_as_good || is_among(finding, &left) {
                continue;
            }
            let is_of_shell = self.parts.iter().all(|part| part.of != index || part.remedy.is_of_shell());
            let mut lasting = others.iter().filter(|part| is_of_shell || !part.remedy.is_of_shell());
            let Some(by) = lasting.find(|part| self.is_fixed_by(finding, part.of)) else { continue };
            for (other, outcome) in outcomes.iter_mut().enumerate() {
                if other == index || [RemedyOutcome::FixedBy(index), RemedyOutcome::FixedUpTo(index)].contains(outcome)
                {
                    *outcome = RemedyOutcome::FixedBy(by.of);
                }
            }
            self.parts = others;
        }
    }

    fn explain(&self, finding: &Finding, refusal: &Objection, remedy: Remedy) -> Remedy {
        let name = |index: usize| self.findings.get(index).map(|first| first.name_for(finding));
        match refusal {
            Objection::Contradicts(first) => wait_for(name(*first), "changes the same"),
            Objection::Waits(first) => wait_for(name(*first), "changes this installation"),
            Objection::DoesNotHelp => remedy.with_end("; this alone is not enough:"),
            Objection::LeadsTo(next) => {
                let (code, message) = (next.kind.code, &next.message);
                Remedy { actions: Vec::new(), ..remedy }
                    .with_end(&format!("; no step does so, because it would lead to {code}: {message}"))
            }
        }
    }
}

/// Adapts a remedy to a named program and to the loader's variable.
fn adapted(remedy: &Remedy, finding: &Finding, context: &PlanContext<'_>) -> Remedy {
    let remedy = match context.program {
        Some((dir, is_of_package)) if finding.installation.as_deref() == Some(dir) => {
            require_manual_replacement(remedy.clone(), dir, is_of_package)
        }
        _ => remedy.clone(),
    };
    if context.is_dir_named { unset_loader_dir(remedy) } else { remedy }
}

fn is_among(finding: &Finding, all: &[Finding]) -> bool {
    all.iter().any(|other| other.is_same(finding))
}

fn wait_for(first: Option<String>, effect: &str) -> Remedy {
    let first = first.unwrap_or_default();
    Remedy::new(format!("fix {first} first, which {effect}; then run `{} check` again", doctor()))
}

/// Advises to replace an installation that no command can change. The program would not find a different cuDNN in the
/// active environment.
fn require_manual_replacement(remedy: Remedy, dir: &Path, is_of_package: bool) -> Remedy {
    let uses_other = |action: &Action| matches!(action, Action::Variable(Variable::Use(_)));
    let is_beside = remedy.effect == Effect::OtherDir && remedy.installs();
    if !is_beside || is_of_package && remedy.actions.iter().any(uses_other) {
        return remedy;
    }
    let dir = dir.printable();
    Remedy::new(format!("install a different release in {dir}, where the program finds cuDNN"))
}

/// Makes remedies that select another cuDNN also change [`DIR_VARIABLE`], because the loader otherwise searches no
/// other directory.
fn unset_loader_dir(remedy: Remedy) -> Remedy {
    let is_about_variable = |action: &Action| match action {
        Action::Variable(Variable::Use(_)) => true,
        Action::Variable(Variable::Set { name, .. } | Variable::Unset(name)) => name == DIR_VARIABLE,
        _ => false,
    };
    let is_needed = remedy.effect == Effect::OtherDir && !remedy.actions.iter().any(is_about_variable);
    if is_needed { remedy.unset(DIR_VARIABLE) } else { remedy }
}
