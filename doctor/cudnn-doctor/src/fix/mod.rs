//! Executes the steps of a plan until one of them fails.
//!
//! A step runs only if the files it depends on are unchanged since the plan was made. It is done only if it had the
//! planned effect (docs/guide/fix.md).

mod foreign;
mod installed;
mod installer;
mod package_list;
mod pasted;
mod rehearsal;
mod run;
mod safeguards;
mod sources;
mod state;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_os::files::lock_dir;
use cudnn_os::interruption::{Interruption, Signal};
use cudnn_probe::facts::Facts;
use cudnn_rules::packages::{
    Aside, MANIFESTS_OF_PIXI, PackageChange, Site, forbidding, hold, package_name, restore_system_packages,
    workspace_of_pixi,
};
use cudnn_rules::plan::{Check, ForeseenEffect, Line, Plan, Step, facts_after, line_of, lines_of, rendered};
use cudnn_rules::remedy::Action;
use tempfile::TempDir;

use installed::{InstalledPackages, OF_ENSUREPIP, PackageDifference};
use run::With;
use state::State;

pub(crate) use foreign::changeable_by_others;
pub(crate) use pasted::variables;
pub(crate) use run::Output;

pub(crate) struct ExecutedStep {
    pub(crate) title: String,
    pub(crate) undo: Undo,
}

/// How to undo a step, or the changes that it made before it failed.
#[derive(Clone, Default)]
pub(crate) struct Undo {
    pub(crate) lines: Vec<String>,
    /// Instructions for a person, or changes that another program may have made at the same time.
    pub(crate) note: Option<String>,
}

pub(crate) struct Stopped {
    /// Zero-based index of the step.
    pub(crate) step: usize,
    pub(crate) reason: String,
    pub(crate) undo: Undo,
}

#[derive(Default)]
pub(crate) struct Fixed {
    pub(crate) done: Vec<ExecutedStep>,
    pub(crate) stopped: Option<Stopped>,
    /// The signal that interrupted the doctor, if any.
    pub(crate) interrupted: Option<Signal>,
}

pub(crate) struct Consent<'a> {
    /// Returns whether this step may remove these files or packages.
    pub(crate) may_remove: &'a dyn Fn(&Step, &[String]) -> bool,
    /// Called when a step starts.
    pub(crate) begin: &'a dyn Fn(usize, &Step),
    /// Called with a line about the running step.
    pub(crate) note: &'a dyn Fn(&str),
    /// Makes the findings again, after a step.
    pub(crate) check: &'a Check,
    pub(crate) output: Output,
}

/// Executes all steps of a plan except the lines for the user's shell. After a signal, the running step is finished.
pub(crate) fn execute(plan: &Plan, consent: &Consent<'_>) -> Fixed {
    let mut fixed = Fixed::default();
    let steps = plan.steps.iter().enumerate().filter(|(_, step)| !step.action.is_of_shell());
    let mut steps: VecDeque<(usize, &Step, State)> =
        steps.map(|(index, step)| (index, step, State::of(&step.action))).collect();
    while let Some((index, step, planned)) = steps.pop_front() {
        let (result, signal) = execute_step(index, step, &planned, consent);
        fixed.interrupted = signal;
        match result {
            Ok(undo) => {
                let notes: Vec<String> = step.note.iter().cloned().chain(undo.note).collect();
                let undo = Undo { note: (!notes.is_empty()).then(|| notes.join("; ")), ..undo };
                fixed.done.push(ExecutedStep { title: step.title.clone(), undo });
            }
            Err((reason, undo)) => {
                fixed.stopped = Some(Stopped { step: index, reason, undo });
                break;
            }
        }
        if signal.is_some() {
            let stopped =
                |step| Stopped { step, reason: "the doctor was interrupted".to_owned(), undo: Undo::default() };
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
    let not_begun = |reason| (Err((reason, Undo::default())), None);
    if let Some(reason) = safeguards::refusal(step) {
        return not_begun(reason);
    }
    let removed = step.action.removed();
    if !removed.is_empty() && !(consent.may_remove)(step, &removed) {
        let removed = removed.join(" and ");
        return not_begun(format!(
            "it removes {removed}, which was not allowed: `fix --yes --remove` does so without asking"
        ));
    }
    let lock = match lock(&step.action) {
        Ok(lock) => lock,
        Err(reason) => return not_begun(reason),
    };
    // Checked after asking the user, because the answer may take a long time.
    if planned.has_changed() {
        return not_begun(
            "something that this step depends on has changed since the plan was made: run `fix` again".to_owned(),
        );
    }
    // From here on, signals are held back until the step has finished.
    let interruption = Interruption::catch();
    (consent.begin)(index, step);
    let simulated = facts_after(&step.action);
    let before = match &step.action {
        Action::Packages(change) => Before::of(change, simulated.as_ref(), consent).map(Some),
        _ => Ok(None),
    };
    let before = match before {
        Ok(before) => before,
        Err(reason) => return (Err((reason, Undo::default())), interruption.signal()),
    };
    let cache = match rehearsal::rehearse(step) {
        Ok(cache) => cache,
        Err(reason) => return (Err((reason, Undo::default())), interruption.signal()),
    };
    if let Some(signal) = interruption.signal() {
        return (Err(("the doctor was interrupted".to_owned(), Undo::default())), Some(signal));
    }
    let effect = ForeseenEffect::of(simulated.as_ref(), &step.fixes, consent.check);
    let with = With { output: consent.output, lock: lock.as_ref(), cache: cache.as_ref().map(TempDir::path) };
    let result = step.lines.iter().try_for_each(|line| run::run(line, &with));
    if let Some(before) = &before {
        before.settle(consent, &with);
    }
    let signal = interruption.signal();
    let result = result.and_then(|()| {
        let unmet = before.as_ref().map_or_else(|| step.action.unfinished(), Before::unmet);
        let unmet = unmet.or_else(|| effect.unmet());
        let reason = |unmet| format!("its commands ended without an error, but {unmet}");
        unmet.map_or(Ok(()), |unmet| Err(reason(unmet)))
    });
    let undo = before.as_ref().map(|before| before.undo(result.is_err())).unwrap_or_default();
    (result.map(|()| undo.clone()).map_err(|reason| (reason, undo)), signal)
}

/// Locks the environment that this action changes, until the installer has exited, even if the doctor is killed.
fn lock(action: &Action) -> Result<Option<File>, String> {
    // Other steps are short, and the drop-in has a lock of its own.
    let environment = action.environments().first().copied();
    let Some(root) = environment.filter(|root| root.is_dir()) else { return Ok(None) };
    match lock_dir(root) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(format!(
            "another process has locked {}, probably a `fix` or an installer that it started: run `fix` again when it has \
             ended",
            root.printable()
        )),
        Err(_) => Ok(None),
        Ok(lock) => Ok(lock),
    }
}

/// The packages before a step.
struct Before<'a> {
    change: &'a PackageChange,
    installed: Option<InstalledPackages>,
    /// The packages afterwards, if the simulation knows them.
    expected: Option<InstalledPackages>,
    /// The records that the step sets aside.
    aside: Vec<Aside>,
    /// The held packages that the step installs again.
    held: Vec<String>,
    /// The directory with pixi's manifests, and their contents.
    manifest: Option<(PathBuf, Vec<Option<Vec<u8>>>)>,
}

impl<'a> Before<'a> {
    fn of(change: &'a PackageChange, simulated: Option<&Facts>, consent: &Consent<'_>) -> Result<Before<'a>, String> {
        let installed = InstalledPackages::of(&change.site);
        let list = package_list::write(&change.site, installed.as_ref())
            .map_err(|error| format!("cannot write the list of packages before the change: {error}"))?;
        if let Some(list) = list {
            (consent.note)(&format!("The packages before this step are listed in {}.", list.printable()));
        }
        // conda and apt may change other packages, too.
        let is_solved = matches!(change.site, Site::Conda(_) | Site::System);
        let simulated = simulated.filter(|_| !is_solved);
        let expected = simulated.and_then(|facts| facts.within(|| InstalledPackages::of(&change.site)));
        let manifest = match &change.site {
            Site::Conda(root) => workspace_of_pixi(root).map(|dir| (dir.clone(), manifests(&dir))),
            _ => None,
        };
        Ok(Before { change, installed, expected, aside: change.records_aside(), held: change.held(), manifest })
    }

    /// Restores what a failed step left behind, because the next check needs it: records that are still aside, unless
    /// the installer has written new ones, and holds.
    fn settle(&self, consent: &Consent<'_>, with: &With<'_>) {
        // Decide about all records first, because a restored one would look like a new record of the installer.
        let commands: Vec<_> = self.aside.iter().map(|aside| (aside, aside.settle())).collect();
        for (aside, commands) in commands {
            let lines: Vec<Line> = commands.into_iter().flat_map(rendered).collect();
            if lines.iter().try_for_each(|line| run::run(line, with)).is_err() {
                let [place, record] = [&aside.place, &aside.record].map(|path| path.printable());
                (consent.note)(&format!(
                    "The record {record} is still in {place}, and could not be put back or removed."
                ));
            }
        }
        // apt-get drops the hold of a package before it installs it again.
        let is_held = self.change.held();
        let lost: Vec<String> = self.held.iter().filter(|name| !is_held.contains(name)).cloned().collect();
        let lines: Vec<Line> = hold(&lost).into_iter().flat_map(rendered).collect();
        if lines.iter().try_for_each(|line| run::run(line, with)).is_err() {
            (consent.note)(&format!("{} is no longer held.", lost.join(" and ").printable()));
        }
    }

    /// Returns how to restore the packages. These include packages that the step removed, because others may have owned
    /// the same files, and after a failure all packages that it names, because their files may be damaged. Unrelated
    /// packages get separate lines, because another program may have changed them.
    fn undo(&self, has_failed: bool) -> Undo {
        if let Some((dir, files)) = &self.manifest {
            let note = (manifests(dir) != *files).then(|| how_to_undo_pixi(dir));
            return Undo { lines: Vec::new(), note };
        }
        let Some((before, after)) = self.installed.as_ref().zip(InstalledPackages::of(&self.change.site)) else {
            return Undo::default();
        };
        let is_named = |name: &str| self.is_removed(name) || has_failed && self.change.installs(name);
        let PackageDifference { added, lost } = before.compared(&after, is_named);
        // Without a record of a package that failed to install, the dependencies are unknown, and any change may be an
        // effect of the step.
        let is_unknown = |requirement: &String| !after.has(package_name(requirement), self.change);
        let wanted = || self.change.install.iter().chain(&self.change.reinstall);
        let affected = match (before.affected_by(self.change), after.affected_by(self.change)) {
            _ if has_failed && wanted().any(is_unknown) => None,
            (Some(before), Some(after)) => Some(&before | &after),
            _ => None,
        };
        let is_affected = |name: &String| affected.as_ref().is_none_or(|affected| affected.contains(name));
        let (added, others_added): (Vec<String>, Vec<String>) = added.into_iter().partition(is_affected);
        let (mut lost, others_lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(name, _)| is_affected(name));
        // The same command would fail again.
        let is_repeated = |(name, requirement): &(String, String)| {
            has_failed && wanted().any(|one| one == requirement) && before.has_same(&after, name)
        };
        lost.retain(|one| !is_repeated(one));
        let names: Vec<&str> =
            others_added.iter().chain(others_lost.iter().map(|(name, _)| name)).map(String::as_str).collect();
        let changed = names.join(" and ").printable();
        let note = (!names.is_empty()).then(|| {
            let lines = self.restoring(others_added.clone(), requirements(&others_lost)).join("; ");
            let how = if lines.is_empty() { String::new() } else { format!(": if not, this undoes it, too: {lines}") };
            format!("another program may have changed {changed} during the step{how}")
        });
        // Respect the user's decisions, such as pins.
        let lost = requirements(&lost);
        let again = PackageChange::of(self.change.site.clone()).reinstall(lost.clone());
        let not_restored = forbidding(&again)
            .map(|decision| format!("no command restores {}, because {decision}", lost.join(" and ").printable()));
        let notes: Vec<String> = note.into_iter().chain(not_restored).collect();
        Undo { lines: self.restoring(added, lost), note: (!notes.is_empty()).then(|| notes.join("; ")) }
    }

    fn is_removed(&self, name: &str) -> bool {
        self.change.remove.iter().any(|removed| removed == name)
    }

    /// Returns the lines that remove these packages and install these requirements.
    fn restoring(&self, added: Vec<String>, lost: Vec<String>) -> Vec<String> {
        let site = &self.change.site;
        // pip cannot remove packages from these directories, and conda provides revisions.
        let has_no_removal = matches!(site, Site::Conda(_) | Site::Directory { .. } | Site::NewEnvironment { .. });
        if has_no_removal && !added.is_empty() {
            return Vec::new();
        }
        if let Site::Conda(_) = site {
            return lines_of(&Action::Packages(PackageChange::of(site.clone()).install(lost)));
        }
        if *site == Site::System {
            let removal = lines_of(&Action::Packages(PackageChange::of(site.clone()).remove(added)));
            let restored = (!lost.is_empty()).then(|| line_of(restore_system_packages(&lost)));
            return removal.into_iter().chain(restored).collect();
        }
        // The lines need pip if the step has added it.
        let added = added.into_iter().filter(|name| !OF_ENSUREPIP.contains(&name.as_str()));
        // If packages own the same files, the last one installed wins. pip sorts the packages of one command, but
        // replaces a directory only once.
        let is_directory = matches!(site, Site::Directory { .. });
        let (one_by_one, lost): (Vec<_>, Vec<_>) =
            lost.into_iter().partition(|lost| !is_directory && self.is_removed(package_name(lost)));
        let mut undo = PackageChange::of(site.clone()).remove(added).reinstall(lost);
        // Without this option, pip leaves existing files in place.
        if let Site::Directory { options, .. } = &mut undo.site
            && !options.contains(&"--upgrade")
        {
            options.push("--upgrade");
        }
        let one_by_one = one_by_one.into_iter().map(|one| PackageChange::of(site.clone()).reinstall([one]));
        let lines = [undo].into_iter().chain(one_by_one).flat_map(|undo| lines_of(&Action::Packages(undo)));
        // All of them may need the same Python first.
        let mut seen = BTreeSet::new();
        lines.filter(|line| seen.insert(line.clone())).collect()
    }

    /// Returns how the packages differ from the planned result.
    fn unmet(&self) -> Option<String> {
        let (before, after) = (self.installed.as_ref()?, InstalledPackages::of(&self.change.site)?);
        let disturbed = || after.disturbed(before, self.expected.as_ref()?);
        after.unmet(self.change, before).or_else(disturbed)
    }
}

fn manifests(dir: &Path) -> Vec<Option<Vec<u8>>> {
    let files = MANIFESTS_OF_PIXI.into_iter().chain(["pixi.lock"]);
    files.map(|name| std::fs::read(dir.join(name)).ok()).collect()
}

/// Returns how to undo a change of pixi. A command would write a different requirement than the user's into the
/// manifest.
fn how_to_undo_pixi(dir: &Path) -> String {
    let install = Command::new("pixi", ["install", "--manifest-path"]).and([dir]);
    let dir = dir.printable();
    format!("to undo the step, restore the manifest and pixi.lock in {dir}, then run `{install}`")
}

fn requirements(lost: &[(String, String)]) -> Vec<String> {
    lost.iter().map(|(_, requirement)| requirement.clone()).collect()
}
