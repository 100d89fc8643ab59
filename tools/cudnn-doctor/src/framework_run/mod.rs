//! Frameworks at work: runs a framework's convolution, attention and RNN in a child process, with the Python of its
//! environment, and explains what fails by its first cause. What a framework's files state is not for this module.

mod build;
mod child;
mod evidence;
mod explain;
mod finding;
mod foreign;
mod framework;
mod help;
mod line;
mod report;
mod step;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::check::finding::{FRAMEWORK_FAILED, Finding, Help, NOT_TESTED};
use crate::check::machine::Machine;
use crate::context::Context;
use crate::escape::Printable;
use crate::platform::{OPEN_LIMITS_HELP, is_lack_of_resources, python_in};
use crate::shell::command_for_environment;
use crate::subprocess::{Ended, Patience, run_command};
use crate::system::PYTHON;
use child::Log;
use step::{Outcome, Step};

pub(crate) use framework::Framework;

/// The number of messages of the child that are read: a script sends about 20.
const MAX_MESSAGES: usize = 1000;

/// The run of one framework.
pub(crate) struct Run {
    framework: Framework,
    /// The interpreter; `None` if there is none.
    python: Option<PathBuf>,
    /// The framework's version, and the package that states it.
    version: Option<String>,
    package: Option<String>,
    /// Python's `sys.prefix`: the environment that it took its packages from.
    prefix: Option<PathBuf>,
    /// The file of the framework that Python imports.
    module: Option<PathBuf>,
    steps: Vec<Step>,
    /// The files of cuDNN that the process had mapped, as it last reported them.
    libraries: Vec<String>,
    pub(crate) finding: Option<Finding>,
}

/// Runs a framework by the Python of this context.
pub(crate) fn run(framework: Framework, context: &Context, machine: &Machine, patience: &Patience) -> Run {
    let mut run = Run {
        framework,
        python: None,
        version: None,
        package: None,
        prefix: None,
        module: None,
        steps: Vec::new(),
        libraries: Vec::new(),
        finding: None,
    };
    let cannot = |error: String| Finding::new(FRAMEWORK_FAILED, format!("{} cannot be run: {error}", framework.name()));
    let Some(python) = &context.python else {
        let example = python_in(Path::new("ENVIRONMENT"));
        let help =
            format!("activate the environment of the program, or name its interpreter: --python {}", example.display());
        run.finding = Some(cannot(format!("no {PYTHON} was found")).help(help));
        return run;
    };
    run.python = Some(python.program.clone());
    let log = match Log::create() {
        Ok(log) => log,
        Err(error) => {
            let help = "have TMPDIR name a directory that exists and that you can write to, or unset it";
            run.finding = Some(untested(framework, &error).help(help));
            return run;
        }
    };
    match run_command(child::command(&python.program, framework, &log), patience) {
        Ok(ended) => {
            run.read(&ended);
            let finding = run.finding(&ended, &log, python, context, machine);
            run.finding = finding.map(|finding| in_project(finding, framework, context));
        }
        Err(error) if is_lack_of_resources(&error) => {
            run.finding = Some(untested(framework, &error).help(OPEN_LIMITS_HELP));
        }
        Err(error) => {
            let help = "name another interpreter or environment by --python";
            run.finding = Some(cannot(format!("{}: {error}", python.program.printable())).help(help));
        }
    }
    run
}

/// Names the virtual environment of the working directory before anything is installed for another Python.
fn in_project(finding: Finding, framework: Framework, context: &Context) -> Finding {
    let is_install = |help: &Help| help.commands.iter().any(|line| line.contains(" install "));
    let is_wanted = finding.help.as_ref().is_some_and(is_install);
    let Some(root) = context.inactive_environment().filter(|_| is_wanted) else { return finding };
    let (name, place) = (framework.name(), root.printable());
    let text = format!("the virtual environment {place} is here and not active: run {name} in that one first:");
    let command = format!("{} --run {}", command_for_environment(&root), framework.module());
    finding.help(Help::new(text).command(command))
}

/// The finding about the doctor, which could not start a framework.
fn untested(framework: Framework, error: &std::io::Error) -> Finding {
    Finding::new(NOT_TESTED, format!("the doctor could not run {}: {error}", framework.name()))
        .note(format!("this says nothing about {}", framework.name()))
}

impl Run {
    /// Reads the child's messages.
    fn read(&mut self, ended: &Ended) {
        for message in ended.messages.iter().take(MAX_MESSAGES) {
            let value = |key: &str| message.get(key).and_then(Value::as_str).map(str::to_owned);
            let text = |key: &str| value(key).unwrap_or_default();
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
            if message.get("begin").is_some() {
                let log_start = message.get("log").and_then(Value::as_u64).unwrap_or(0);
                self.steps.push(Step { log_start, ..Step::new(text("begin")) });
            }
            if let (Some(_), Some(step)) = (message.get("end"), self.steps.last_mut()) {
                step.outcome = Some(Outcome::parse(&text("outcome")));
                (step.text, step.causes) = (text("text"), texts("causes"));
                step.file = value("file").map(PathBuf::from);
            }
        }
    }
}
