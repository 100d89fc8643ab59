//! What is wrong with a run: its first failure, with the evidence and the help.

use std::collections::BTreeMap;
use std::path::Path;

use cudnn_probe::InstallationReport;

use super::child::Log;
use super::evidence::{self, Evidence};
use super::explain::{self, Cause, Kind};
use super::foreign::{self, Foreign, Owner};
use super::line::shortened;
use super::step::{END, IMPORT, Outcome, START, Step, first_line};
use super::{Run, help};
use crate::check::finding::{FRAMEWORK_ELSEWHERE, FRAMEWORK_FAILED, FRAMEWORK_ON_CPU, Finding, Help};
use crate::check::machine::Machine;
use crate::cmd::log::meaning;
use crate::context::Context;
use crate::escape::Printable;
use crate::python::Python;
use crate::subprocess::Ended;

/// The number of directories whose files a finding lists, and of files of each.
const MAX_LISTED_DIRS: usize = 4;
const MAX_LISTED_FILES: usize = 12;

impl Run {
    /// What is wrong, if anything is.
    pub(super) fn finding(
        &mut self,
        ended: &Ended,
        log: &Log,
        python: &Python,
        context: &Context,
        machine: &Machine,
    ) -> Option<Finding> {
        let has_said_so = ended.messages.iter().any(|message| message.get("finished").is_some());
        let is_finished = has_said_so && self.steps.iter().all(|step| step.outcome.is_some());
        let end = match ended.end.failure() {
            Some(failure) => Some(failure),
            None if is_finished => None,
            None => Some("was ended by a library, with status 0".to_owned()),
        };
        if let Some(end) = &end {
            self.blame(end);
        }
        let foreign = Foreign::of(self.prefix.as_deref(), self.module.as_deref(), python);
        let is = |outcome| move |step: &&Step| step.outcome == Some(outcome);
        let mut wrong = self.steps.iter().filter(is(Outcome::Failed));
        let (kind, step) = match (wrong.next(), self.steps.iter().find(is(Outcome::Cpu))) {
            (Some(step), _) => (FRAMEWORK_FAILED, step),
            (None, Some(step)) => (FRAMEWORK_ON_CPU, step),
            (None, None) => return self.elsewhere(&foreign?),
        };
        let evidence = Evidence::of_step(step, ended, end.is_some(), log);
        let run_by = format!("run by {}", python.program.printable());
        if step.name == START {
            let message = format!("{}: Python did not start: {}", self.framework.name(), shortened(&step.text));
            let finding = Finding::new(kind, message).notes(evidence.last_lines()).note(run_by);
            return Some(finding.help(foreign::help_to_start(&evidence.stderr).unwrap_or_else(|| {
                Help::new("start this Python by hand to see why, or name another one by --python")
            })));
        }
        // A driver that is missing explains whatever a framework writes about it.
        let driver = machine.findings().filter(|_| step.outcome == Some(Outcome::Cpu));
        let mut cause = explain::first_cause(&evidence);
        let driver = driver.filter(|_| explain::is_about_gpu(&cause, machine.has_driver_library()));
        if let Some(driver) = &driver {
            cause = Cause { kind: Kind::NoGpu, text: driver.message.clone() };
        }
        let finding = Finding::new(kind, self.message(step, &cause)).notes(self.notes(step, &cause, &evidence));
        let how = end.as_ref().map(|end| format!("the process {end}{}", ended.during()));
        let others = wrong.map(|other| format!("the {} failed, too: {}", other.noun(), first_line(&other.text)));
        let finding = finding.notes(how).notes(others);
        let finding = match cause.kind {
            Kind::NoCuda => finding.note("a build without CUDA uses no cuDNN"),
            _ => finding.notes(self.files(context)),
        };
        let finding = finding.note(run_by).notes(foreign.as_ref().map(|foreign| foreign.what.clone()));
        // Modules of another environment fail for reasons of their own.
        let of_import = (step.name == IMPORT && step.outcome == Some(Outcome::Failed)).then_some(());
        let foreign = of_import.and_then(|()| foreign.or_else(|| Foreign::of_file(step.file.as_deref()?, python)));
        let is_of_module = of_import.is_some() && matches!(cause.kind, Kind::Other | Kind::NoModule(_));
        let foreign = foreign.or_else(|| if is_of_module { Foreign::of_package() } else { None });
        Some(match (foreign, driver.and_then(|driver| driver.help)) {
            (Some(foreign), _) => finding.help(foreign.help),
            (None, Some(help)) => finding.help(help),
            (None, None) => finding.help(self.help(&cause, ended, python, context, machine)),
        })
    }

    /// The finding for a run that works, with modules from outside of the environment.
    fn elsewhere(&self, foreign: &Foreign) -> Option<Finding> {
        let message = format!("{} works, but {}", self.title(), foreign.what);
        Some(Finding::new(FRAMEWORK_ELSEWHERE, message).help(foreign.help.clone()))
    }

    /// `PyTorch 2.9.1+cu128`.
    pub(super) fn title(&self) -> String {
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {}", version.printable()));
        format!("{}{version}", self.framework.name())
    }

    fn message(&self, step: &Step, cause: &Cause) -> String {
        let what = match (step.outcome, &cause.kind) {
            (Some(Outcome::Cpu), Kind::NoGpu | Kind::Hidden(_)) => " sees no GPU".to_owned(),
            (Some(Outcome::Cpu), _) => " computes on the CPU".to_owned(),
            _ => format!(": the {} failed", step.noun()),
        };
        format!("{}{what}: {}", self.title(), shortened(&cause.text))
    }

    /// Gives the end of the child to the step that it was doing.
    fn blame(&mut self, end: &str) {
        let text = format!("the process {end}");
        let name = if self.steps.is_empty() { START } else { END };
        match self.steps.last_mut() {
            Some(step) if step.outcome.is_none() => (step.outcome, step.text) = (Some(Outcome::Failed), text),
            _ => self.steps.push(Step { outcome: Some(Outcome::Failed), text, ..Step::new(name.to_owned()) }),
        }
    }

    /// The evidence that the message does not contain.
    fn notes(&self, step: &Step, cause: &Cause, evidence: &Evidence) -> Vec<String> {
        let mut notes = Vec::new();
        let entry = evidence.log_entry();
        if let Some(entry) = entry.filter(|entry| *entry != cause.text) {
            notes.push(format!("the first error in cuDNN's log: {}", shortened(&entry)));
        }
        let last = first_line(&step.text);
        if !cause.text.contains(&last) && !last.starts_with("the process ") {
            notes.push(format!("{}'s message: {last}", self.framework.name()));
        }
        if let Some(status) = evidence::status_in(&cause.text)
            && let Some(meaning) = meaning(status)
        {
            notes.push(format!("{status}: {meaning}"));
        }
        if evidence.is_crash {
            let stderr = evidence.last_lines();
            notes.extend(stderr.iter().filter(|line| **line != cause.text).map(|line| format!("its stderr: {line}")));
        }
        notes
    }

    /// The files of cuDNN that the process had mapped, as a note for each directory.
    fn files(&self, context: &Context) -> Vec<String> {
        if self.libraries.is_empty() {
            return vec!["no library of cuDNN was loaded".into()];
        }
        let mut dirs: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
        for file in self.libraries.iter().map(Path::new) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            dirs.entry(file.parent().unwrap_or(file)).or_default().push(name);
        }
        let note = |(dir, files): (&&Path, &Vec<String>)| {
            let version = InstallationReport::read(dir, &context.host).and_then(|report| report.version);
            let version = version.map_or(String::new(), |version| format!(" (cuDNN {version})"));
            let listed: Vec<&str> = files.iter().take(MAX_LISTED_FILES).map(String::as_str).collect();
            let more = if listed.len() < files.len() { ", ..." } else { "" };
            format!("loaded from {}{version}: {}{more}", dir.printable(), listed.join(", "))
        };
        dirs.iter().take(MAX_LISTED_DIRS).map(note).collect()
    }

    fn help(&self, cause: &Cause, ended: &Ended, python: &Python, context: &Context, machine: &Machine) -> Help {
        if ended.end.is_hang() {
            return Help::new("if this machine is only slow, check with `--timeout 600`");
        }
        if ended.lack_of_memory().is_some() {
            return crate::platform::MEMORY_HELP.into();
        }
        let changes_packages = matches!(
            cause.kind,
            Kind::NoCuda | Kind::MissingLibrary(_) | Kind::MissingSubLibrary | Kind::MissingSymbol
        );
        let module = self.module.as_deref().filter(|_| changes_packages);
        match module.map(|module| (module, foreign::owner(module, python))) {
            Some((_, Owner::Other(other))) => help::help(cause, self, &other, context, machine),
            Some((module, Owner::Unknown(brought_in))) => Help::new(format!(
                "{} is in {}, outside of this environment: {brought_in}; mend the installation there, or start without it",
                self.framework.name(),
                module.parent().unwrap_or(module).printable()
            )),
            Some((_, Owner::Same)) | None => help::help(cause, self, python, context, machine),
        }
    }
}
