//! Turns the first failure of a run into a finding.

use std::collections::BTreeMap;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_cli::platform::MEMORY_HELP;
use cudnn_cli::subprocess::Ended;
use cudnn_frameworks::installation::InstallationReport;

use super::Run;
use super::cause::{self, Cause, CauseKind, StepEvidence};
use super::help::Helper;
use super::outside_module::{self, OutsideModule};
use super::step::{END, IMPORT, RunStep, START, StepOutcome, first_line, shortened};
use crate::check::finding::{FRAMEWORK_ELSEWHERE, FRAMEWORK_FAILED, FRAMEWORK_ON_CPU, Finding};
use crate::check::machine::Machine;
use crate::context::Context;
use crate::cudnn_status::meaning;
use crate::python::Python;
use crate::remedy::Remedy;

/// Limits of the list of loaded files: directories, and files in a directory.
const MAX_LISTED_DIRS: usize = 4;
const MAX_LISTED_FILES: usize = 12;

impl Run {
    pub(super) fn finding(
        &mut self,
        ended: &Ended,
        log: &dyn Fn(u64) -> String,
        python: &Python,
        context: &Context,
        machine: &Machine,
    ) -> Option<Finding> {
        let has_said_so = ended.messages.iter().any(|message| message.get("finished").is_some());
        let is_finished = has_said_so && self.steps.iter().all(|step| step.outcome.is_some());
        let by_library = || (!is_finished).then(|| "was ended by a library, with status 0".to_owned());
        let end = ended.end.failure().or_else(by_library);
        end.iter().for_each(|end| self.fail_current_step(end));
        let outside_module = OutsideModule::of(self.prefix.as_deref(), self.module.as_deref(), python);
        let is = |outcome| move |step: &&RunStep| step.outcome == Some(outcome);
        let mut wrong = self.steps.iter().filter(is(StepOutcome::Failed));
        let (kind, step) = match (wrong.next(), self.steps.iter().find(is(StepOutcome::Cpu))) {
            (Some(step), _) => (FRAMEWORK_FAILED, step),
            (None, Some(step)) => (FRAMEWORK_ON_CPU, step),
            (None, None) => {
                let OutsideModule { what, help } = outside_module?;
                let message = format!("{} works, but {what}", self.title());
                return Some(Finding::new(FRAMEWORK_ELSEWHERE, message).remedy(help));
            }
        };
        let evidence = StepEvidence::from_step(step, ended, end.is_some(), log);
        let run_by = format!("run by {}", python.program.printable());
        if step.name == START {
            let message = format!("{}: Python did not start: {}", self.framework.name(), shortened(&step.text));
            let help = outside_module::help_to_start(&evidence.stderr).unwrap_or_else(|| {
                Remedy::new("start this Python by hand to see why, or name another one with --python")
            });
            return Some(Finding::new(kind, message).notes(evidence.last_lines()).note(run_by).remedy(help));
        }
        // A missing driver takes precedence over the framework's own messages.
        let driver = machine.findings().filter(|_| step.outcome == Some(StepOutcome::Cpu));
        let mut cause = cause::first_cause(&evidence);
        let driver = driver.filter(|_| cause::is_about_gpu(&cause, machine.has_driver_library()));
        if let Some(driver) = &driver {
            cause = Cause { kind: CauseKind::NoGpu, text: driver.message.clone() };
        }
        let how = end.as_ref().map(|end| format!("the process {end}{}", ended.during()));
        let others = wrong.map(|other| format!("the {} failed, too: {}", other.noun(), first_line(&other.text)));
        let files = match cause.kind {
            CauseKind::NoCuda => vec!["a build without CUDA uses no cuDNN".to_owned()],
            _ => self.files(context),
        };
        let finding = Finding::new(kind, self.message(step, &cause))
            .notes(self.notes(step, &cause, &evidence))
            .notes(how)
            .notes(others)
            .notes(files)
            .note(run_by)
            .notes(outside_module.as_ref().map(|outside_module| outside_module.what.clone()));
        // Imports from another environment fail for their own reasons.
        let is_of_import = step.name == IMPORT && step.outcome == Some(StepOutcome::Failed);
        let is_of_module = matches!(cause.kind, CauseKind::Other | CauseKind::NoModule(_));
        let outside_module = outside_module
            .or_else(|| OutsideModule::from_file(step.file.as_deref()?, python))
            .or_else(|| if is_of_module { OutsideModule::from_package_on_path() } else { None })
            .filter(|_| is_of_import);
        let help = outside_module.map(|outside_module| outside_module.help).or_else(|| driver?.remedy);
        Some(finding.remedy(help.unwrap_or_else(|| self.help(&cause, ended, python, context, machine))))
    }

    pub(super) fn title(&self) -> String {
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {}", version.printable()));
        format!("{}{version}", self.framework.name())
    }

    fn message(&self, step: &RunStep, cause: &Cause) -> String {
        let what = match (step.outcome, &cause.kind) {
            (Some(StepOutcome::Cpu), CauseKind::NoGpu | CauseKind::Hidden(_)) => " sees no GPU".to_owned(),
            (Some(StepOutcome::Cpu), _) => " computes on the CPU".to_owned(),
            _ => format!(": the {} failed", step.noun()),
        };
        format!("{}{what}: {}", self.title(), shortened(&cause.text))
    }

    fn fail_current_step(&mut self, end: &str) {
        if self.steps.last().is_none_or(|step| step.outcome.is_some()) {
            let name = if self.steps.is_empty() { START } else { END };
            self.steps.push(RunStep { name: name.to_owned(), ..RunStep::default() });
        }
        if let Some(step) = self.steps.last_mut() {
            (step.outcome, step.text) = (Some(StepOutcome::Failed), format!("the process {end}"));
        }
    }

    fn notes(&self, step: &RunStep, cause: &Cause, evidence: &StepEvidence) -> Vec<String> {
        let mut notes = Vec::new();
        let entry = evidence.log_entry().filter(|entry| *entry != cause.text);
        notes.extend(entry.map(|entry| format!("the first error in cuDNN's log: {}", shortened(&entry))));
        let last = first_line(&step.text);
        if !cause.text.contains(&last) && !last.starts_with("the process ") {
            notes.push(format!("{}'s message: {last}", self.framework.name()));
        }
        let status = cause::status_in(&cause.text);
        notes.extend(status.and_then(|status| Some(format!("{status}: {}", meaning(status)?))));
        if evidence.is_crash {
            let stderr = evidence.last_lines();
            notes.extend(stderr.iter().filter(|line| **line != cause.text).map(|line| format!("its stderr: {line}")));
        }
        notes
    }

    /// Lists the cuDNN files mapped by the process, as one note for every directory.
    fn files(&self, context: &Context) -> Vec<String> {
        if self.libraries.is_empty() {
            return vec!["no library of cuDNN was loaded".into()];
        }
        let mut dirs: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
        for file in self.libraries.iter().map(Path::new) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            dirs.entry(file.parent().unwrap_or(file)).or_default().push(name);
        }
        let note = |(dir, mut files): (&Path, Vec<String>)| {
            let version = InstallationReport::read(dir, &context.host).and_then(|report| report.version);
            let version = version.map_or(String::new(), |version| format!(" (cuDNN {version})"));
            if files.len() > MAX_LISTED_FILES {
                files.truncate(MAX_LISTED_FILES);
                files.push("...".to_owned());
            }
            format!("loaded from {}{version}: {}", dir.printable(), files.join(", "))
        };
        dirs.into_iter().take(MAX_LISTED_DIRS).map(note).collect()
    }

    fn help(&self, cause: &Cause, ended: &Ended, python: &Python, context: &Context, machine: &Machine) -> Remedy {
        if ended.end.is_hang() {
            return Remedy::new("if this machine is only slow, check with `--timeout 600`");
        }
        if ended.lack_of_memory.is_some() {
            return MEMORY_HELP.into();
        }
        let changes_packages = matches!(
            cause.kind,
            CauseKind::NoCuda | CauseKind::MissingLibrary(_) | CauseKind::MissingSubLibrary | CauseKind::MissingSymbol
        );
        let owner = match self.module.as_deref().filter(|_| changes_packages) {
            Some(module) => outside_module::owner(module, python).map_err(|import_origin| (module, import_origin)),
            None => Ok(python.clone()),
        };
        match owner {
            Ok(python) => Helper { run: self, python: &python, context, machine }.help(cause),
            Err((module, import_origin)) => Remedy::new(format!(
                "{} is in {}, outside of this environment: {import_origin}; fix the installation there, or start without it",
                self.framework.name(),
                module.parent().unwrap_or(module).printable()
            )),
        }
    }
}
