//! Reports the first cause of a failure when a child process ran a framework with the Python of the environment.

mod cause;
mod finding;
mod help;
mod outside_module;
mod step;

use cudnn_cli::escape::Printable;
use cudnn_cli::platform::OPEN_LIMITS_HELP;
use cudnn_cli::subprocess::Ended;
use std::io::Error;
use std::path::{Path, PathBuf};

use cudnn_os::errors::is_lack_of_resources;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::check::finding::{FRAMEWORK_ELSEWHERE, FRAMEWORK_FAILED, Finding, NOT_TESTED};
use crate::check::machine::Machine;
use crate::context::Context;
use crate::packages::python_in;
use crate::python::Python;
use crate::remedy::Remedy;
use crate::system::PYTHON;
use step::{RunStep, StepOutcome, first_line};

pub use crate::runnable::RunnableFramework;

/// The maximum number of messages read from the child. A script sends about 20.
const MAX_MESSAGES: usize = 1000;

/// The run of one framework.
pub struct Run {
    framework: RunnableFramework,
    python: Option<PathBuf>,
    /// The framework's version, with the package that provides it.
    version: Option<String>,
    package: Option<String>,
    /// Python's `sys.prefix`, which identifies the environment with the packages.
    prefix: Option<PathBuf>,
    /// The framework's file that Python imported.
    module: Option<PathBuf>,
    steps: Vec<RunStep>,
    /// The cuDNN files mapped by the process, according to the latest report.
    libraries: Vec<String>,
    pub(crate) finding: Option<Finding>,
}

/// A child process that has run a framework's script.
pub struct ChildRun {
    /// The result and the messages of the process.
    pub ended: Ended,
    /// Returns cuDNN's log from this position on.
    pub log: Box<dyn Fn(u64) -> String>,
}

/// Why a framework's script was not run.
pub enum NotRun {
    /// The directory for the child process is missing.
    NoDirectory(Error),
    /// The interpreter failed to start.
    NotStarted(Error),
}

/// Suggests the virtual environment of the working directory before packages are installed for a different Python.
fn in_project(finding: Finding, framework: RunnableFramework, context: &Context) -> Finding {
    let is_wanted = finding.remedy.as_ref().is_some_and(Remedy::installs);
    let Some(root) = context.inactive_environment().filter(|_| is_wanted) else { return finding };
    let (name, place) = (framework.name(), root.printable());
    let text = format!("the virtual environment {place} exists here but is not active: run {name} in it first:");
    let [check, python, run] = ["check", "--python", "--run"].map(Into::into);
    finding.remedy(Remedy::new(text).look([check, python, root.into_os_string(), run, framework.module().into()]))
}

impl Run {
    /// Runs a framework with the Python of this context, through a function that starts the child process.
    pub fn of(
        framework: RunnableFramework,
        context: &Context,
        machine: &Machine,
        run_child: impl FnOnce(&Python) -> Result<ChildRun, NotRun>,
    ) -> Run {
        let mut run = Run {
            framework,
            python: context.python.as_ref().map(|python| python.program.clone()),
            version: None,
            package: None,
            prefix: None,
            module: None,
            steps: Vec::new(),
            libraries: Vec::new(),
            finding: None,
        };
        run.finding = run.start(context, machine, run_child);
        run
    }

    fn start(
        &mut self,
        context: &Context,
        machine: &Machine,
        run_child: impl FnOnce(&Python) -> Result<ChildRun, NotRun>,
    ) -> Option<Finding> {
        let (framework, name) = (self.framework, self.framework.name());
        let cannot = |error: String| Finding::new(FRAMEWORK_FAILED, format!("{name} cannot be run: {error}"));
        let untested = |error: &Error| {
            Finding::new(NOT_TESTED, format!("the doctor could not run {name}: {error}"))
                .note(format!("this says nothing about {name}"))
        };
        let Some(python) = &context.python else {
            let example = python_in(Path::new("ENVIRONMENT"));
            let help = "activate the environment of the program, or name its interpreter: --python";
            return Some(cannot(format!("no {PYTHON} was found")).remedy(format!("{help} {}", example.display())));
        };
        let ChildRun { ended, log } = match run_child(python) {
            Ok(child) => child,
            Err(NotRun::NoDirectory(error)) => {
                let help = "set TMPDIR to an existing directory that you can write to, or unset it";
                return Some(untested(&error).remedy(help));
            }
            Err(NotRun::NotStarted(error)) if is_lack_of_resources(&error) => {
                return Some(untested(&error).remedy(OPEN_LIMITS_HELP));
            }
            Err(NotRun::NotStarted(error)) => {
                let help = "name another interpreter or environment with --python";
                return Some(cannot(format!("{}: {error}", python.program.printable())).remedy(help));
            }
        };
        self.read(&ended);
        let finding = self.finding(&ended, &log, python, context, machine)?;
        Some(in_project(finding, framework, context))
    }

    fn read(&mut self, ended: &Ended) {
        for message in ended.messages.iter().take(MAX_MESSAGES) {
            let value = |key: &str| message.get(key).and_then(Value::as_str).map(str::to_owned);
            let texts = |key: &str| {
                let values = message.get(key).and_then(Value::as_array).into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            for (known, key) in [(&mut self.version, "version"), (&mut self.package, "package")] {
                *known = value(key).or(known.take());
            }
            for (known, key) in [(&mut self.prefix, "prefix"), (&mut self.module, "module")] {
                *known = value(key).map(PathBuf::from).or(known.take());
            }
            if message.get("libraries").is_some() {
                self.libraries = texts("libraries");
            }
            if let Some(name) = value("begin") {
                let log_start = message.get("log").and_then(Value::as_u64).unwrap_or(0);
                self.steps.push(RunStep { name, log_start, ..RunStep::default() });
            }
            if let (Some(_), Some(step)) = (message.get("end"), self.steps.last_mut()) {
                step.outcome = message
                    .get("outcome")
                    .and_then(|outcome| StepOutcome::deserialize(outcome).ok())
                    .or(Some(StepOutcome::Failed));
                (step.text, step.causes) = (value("text").unwrap_or_default(), texts("causes"));
                step.file = value("file").map(PathBuf::from);
            }
        }
    }

    /// Returns the run for `--json`.
    pub fn value(&self) -> Value {
        let step =
            |RunStep { name, outcome, text, .. }: &RunStep| json!({ "step": name, "outcome": outcome, "text": text });
        // The framework itself works, even if it was imported from elsewhere.
        let is_fault = |finding: &Finding| finding.kind.code != FRAMEWORK_ELSEWHERE.code;
        json!({
            "framework": self.framework.module(),
            "python": self.python.as_ref().map(|python| python.to_string_lossy()),
            "version": self.version,
            "works": !self.finding.as_ref().is_some_and(is_fault),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "libraries": self.libraries,
        })
    }

    /// Formats the run as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let python = self.python.as_ref().map_or(String::new(), |python| format!(", by {}", python.printable()));
        let step = |RunStep { name, outcome, text, .. }: &RunStep| {
            let outcome = match outcome {
                Some(StepOutcome::Done) => "",
                Some(StepOutcome::Skipped) => "skipped: ",
                Some(StepOutcome::Cpu) => "on the CPU: ",
                Some(StepOutcome::Failed) | None => "failed: ",
            };
            let text = format!("  {:<12} {outcome}{}", name.printable(), first_line(text).printable());
            text.trim_end().to_owned()
        };
        let title = format!("{}{python}", self.title());
        std::iter::once(title).chain(self.steps.iter().map(step)).collect()
    }
}
