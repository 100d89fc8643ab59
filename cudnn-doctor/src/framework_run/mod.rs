//! Frameworks at work: runs a framework's convolution, attention and RNN in a child process, with the Python of its
//! environment, and explains what fails by its first cause. What a framework's files state is not for this module.

mod evidence;
mod explain;
mod help;
mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_probe::InstallationReport;
use serde_json::{Value, json};

use crate::check::finding::{FRAMEWORK_FAILED, FRAMEWORK_ON_CPU, Finding, Help};
use crate::cmd::log::meaning;
use crate::context::Context;
use crate::escape::Printable;
use crate::subprocess::{Ended, Patience, run_command};
use evidence::{Evidence, shortened};
use explain::Cause;
use python::{Log, Python};

/// The number of directories whose files a finding lists, and of files of each.
const MAX_LISTED_DIRS: usize = 4;
const MAX_LISTED_FILES: usize = 12;

/// The number of messages of the child that are read: a script sends about 20.
const MAX_MESSAGES: usize = 1000;

/// A framework that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Framework {
    /// PyTorch.
    #[value(alias = "pytorch")]
    Torch,
    /// JAX.
    Jax,
    /// TensorFlow.
    Tensorflow,
    /// ONNX Runtime.
    Onnxruntime,
    /// CTranslate2.
    Ctranslate2,
}

impl Framework {
    fn name(self) -> &'static str {
        match self {
            Framework::Torch => "PyTorch",
            Framework::Jax => "JAX",
            Framework::Tensorflow => "TensorFlow",
            Framework::Onnxruntime => "ONNX Runtime",
            Framework::Ctranslate2 => "CTranslate2",
        }
    }

    /// The name of its module, and on the command line.
    fn module(self) -> &'static str {
        match self {
            Framework::Torch => "torch",
            Framework::Jax => "jax",
            Framework::Tensorflow => "tensorflow",
            Framework::Onnxruntime => "onnxruntime",
            Framework::Ctranslate2 => "ctranslate2",
        }
    }

    /// The program that makes its steps, without the part that all share.
    fn script(self) -> &'static str {
        match self {
            Framework::Torch => include_str!("torch.py"),
            Framework::Jax => include_str!("jax.py"),
            Framework::Tensorflow => include_str!("tensorflow.py"),
            Framework::Onnxruntime => include_str!("onnxruntime.py"),
            Framework::Ctranslate2 => include_str!("ctranslate2.py"),
        }
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Skipped,
    /// The framework computes on the CPU.
    Cpu,
    Failed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Skipped => "skipped",
            Outcome::Cpu => "cpu",
            Outcome::Failed => "failed",
        }
    }
}

/// A step of the child.
#[derive(Debug)]
struct Step {
    name: String,
    /// `None` if the child ended before the step did.
    outcome: Option<Outcome>,
    /// The result, or the error.
    text: String,
    /// The errors that caused this one, the nearest first.
    causes: Vec<String>,
    /// The length of cuDNN's log when it began.
    log_start: u64,
}

impl Step {
    /// The name, to follow "the".
    fn noun(&self) -> &str {
        match self.name.as_str() {
            "cudnn" => "check of cuDNN's version",
            "device" => "start of CUDA",
            "rnn" => "RNN",
            name => name,
        }
    }
}

/// The run of one framework.
pub(crate) struct Run {
    framework: Framework,
    /// The interpreter; `None` if there is none.
    python: Option<PathBuf>,
    version: Option<String>,
    steps: Vec<Step>,
    /// The files of cuDNN that the process had mapped, as it last reported them.
    libraries: Vec<String>,
    pub(crate) finding: Option<Finding>,
}

/// Runs a framework in the active environment, or with this interpreter or environment.
pub(crate) fn run(framework: Framework, python: Option<&Path>, context: &Context, patience: &Patience) -> Run {
    let mut run =
        Run { framework, python: None, version: None, steps: Vec::new(), libraries: Vec::new(), finding: None };
    let cannot = |error: String| Finding::new(FRAMEWORK_FAILED, format!("{} cannot be run: {error}", framework.name()));
    let Some(python) = Python::find(python, context) else {
        let help = "activate the environment of the program, or name its interpreter: --python ENVIRONMENT/bin/python3";
        run.finding = Some(cannot("no python3 was found".into()).help(help));
        return run;
    };
    run.python = Some(python.program.clone());
    let started = Log::create().and_then(|log| {
        let ended = run_command(python.command(framework.script(), &log), patience)?;
        Ok((log, ended))
    });
    match started {
        Ok((log, ended)) => {
            run.read(&ended);
            run.finding = run.finding(&ended, &log, &python, context);
        }
        Err(error) => {
            let help = "name another interpreter or environment by --python";
            run.finding = Some(cannot(format!("{}: {error}", python.program.printable())).help(help));
        }
    }
    run
}

/// The step of a Python that has sent nothing.
const START: &str = "start of Python";

impl Run {
    /// Reads the child's messages.
    fn read(&mut self, ended: &Ended) {
        for message in ended.messages.iter().take(MAX_MESSAGES) {
            let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let texts = |key: &str| {
                let values = message.get(key).and_then(Value::as_array).into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            if message.get("version").is_some() {
                self.version = Some(text("version"));
            }
            if message.get("libraries").is_some() {
                self.libraries = texts("libraries");
            }
            if message.get("begin").is_some() {
                let log_start = message.get("log").and_then(Value::as_u64).unwrap_or(0);
                let (name, causes) = (text("begin"), Vec::new());
                self.steps.push(Step { name, outcome: None, text: String::new(), causes, log_start });
            }
            if let (Some(_), Some(step)) = (message.get("end"), self.steps.last_mut()) {
                step.outcome = match text("outcome").as_str() {
                    "done" => Some(Outcome::Done),
                    "skipped" => Some(Outcome::Skipped),
                    "cpu" => Some(Outcome::Cpu),
                    _ => Some(Outcome::Failed),
                };
                (step.text, step.causes) = (text("text"), texts("causes"));
            }
        }
    }

    /// What is wrong, if anything is.
    fn finding(&mut self, ended: &Ended, log: &Log, python: &Python, context: &Context) -> Option<Finding> {
        let has_said_so = ended.messages.iter().any(|message| message.get("finished").is_some());
        let is_finished = has_said_so && self.steps.iter().all(|step| step.outcome.is_some());
        let end = match ended.end.failure() {
            _ if is_finished => None,
            Some(failure) => Some(failure),
            None => Some("was ended by a library, with status 0".to_owned()),
        };
        if let Some(end) = &end {
            self.blame(end);
        }
        let is = |outcome| move |step: &&Step| step.outcome == Some(outcome);
        let mut wrong = self.steps.iter().filter(is(Outcome::Failed));
        let (kind, step) = match wrong.next() {
            Some(step) => (FRAMEWORK_FAILED, step),
            None => (FRAMEWORK_ON_CPU, self.steps.iter().find(is(Outcome::Cpu))?),
        };
        let evidence = Evidence::of_step(step, ended, end.is_some(), log);
        if step.name == START {
            let message = format!("{}: Python did not start: {}", self.framework.name(), shortened(&step.text));
            let finding = Finding::new(kind, message).notes(evidence.last_lines());
            let help =
                "name the Python of the environment by --python; PYTHONHOME and PYTHONPATH can keep it from starting";
            return Some(finding.note(format!("run by {}", python.program.printable())).help(help));
        }
        let cause = explain::first_cause(&evidence);
        let what = match step.outcome {
            Some(Outcome::Cpu) => "computes on the CPU".to_owned(),
            _ => format!("the {} failed", step.noun()),
        };
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {}", version.printable()));
        let separator = if step.outcome == Some(Outcome::Cpu) { "" } else { ":" };
        let message = format!("{}{version}{separator} {what}: {}", self.framework.name(), shortened(&cause.text));
        let mut finding = Finding::new(kind, message).notes(self.notes(step, &cause, &evidence));
        if let Some(end) = &end {
            finding = finding.note(format!("the process {end}{}", ended.during()));
        }
        let others = wrong.map(|other| format!("the {} failed, too: {}", other.noun(), first_line(&other.text)));
        let finding =
            finding.notes(others).notes(self.files(context)).note(format!("run by {}", python.program.printable()));
        Some(finding.help(self.help(&cause, ended, python, context)))
    }

    /// Gives the end of the child to the step that it was doing.
    fn blame(&mut self, end: &str) {
        let text = format!("the process {end}");
        match self.steps.last_mut() {
            Some(step) if step.outcome.is_none() => (step.outcome, step.text) = (Some(Outcome::Failed), text),
            _ => self.steps.push(Step {
                name: if self.steps.is_empty() { START } else { "end of the process" }.to_owned(),
                outcome: Some(Outcome::Failed),
                text,
                causes: Vec::new(),
                log_start: 0,
            }),
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

    fn help(&self, cause: &Cause, ended: &Ended, python: &Python, context: &Context) -> Help {
        if ended.end.is_hang() {
            return Help::new("if this machine is only slow, check with `--timeout 600`");
        }
        if ended.lack_of_memory().is_some() {
            return crate::memory::HELP.into();
        }
        help::help(cause, self.framework, &self.libraries, python, context)
    }

    /// For `--json`.
    pub(crate) fn value(&self) -> Value {
        json!({
            "framework": self.framework.module(),
            "python": self.python.as_ref().map(|python| python.to_string_lossy()),
            "version": self.version,
            "works": self.finding.is_none(),
            "steps": self.steps.iter().map(|step| json!({
                "step": step.name,
                "outcome": step.outcome.map(Outcome::as_str),
                "text": step.text,
            })).collect::<Vec<_>>(),
            "libraries": self.libraries,
        })
    }

    /// The run as lines of text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let version = self.version.as_ref().map_or(String::new(), |version| format!(" {}", version.printable()));
        let python = self.python.as_ref().map_or(String::new(), |python| format!(", by {}", python.printable()));
        let step = |step: &Step| {
            let outcome = match step.outcome {
                Some(Outcome::Done) => String::new(),
                Some(Outcome::Skipped) => "skipped: ".to_owned(),
                Some(Outcome::Cpu) => "on the CPU: ".to_owned(),
                Some(Outcome::Failed) | None => "failed: ".to_owned(),
            };
            let text = format!("  {:<12} {outcome}{}", step.name.printable(), first_line(&step.text).printable());
            text.trim_end().to_owned()
        };
        let title = format!("{}{version}{python}", self.framework.name());
        std::iter::once(title).chain(self.steps.iter().map(step)).collect()
    }
}

/// The first line with text.
fn first_line(text: &str) -> String {
    shortened(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}
