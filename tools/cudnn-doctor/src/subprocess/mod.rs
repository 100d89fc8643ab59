//! Runs the doctor or a framework's Python as a child process: libraries may crash or hang when they are loaded. The child
//! reports the steps that it begins; the parent ends it if it makes no progress, and knows what it was doing.
//!
//! Progress is a new step, or reading from a disk: a first start from a slow disk takes minutes, and is no hang. Using
//! the CPU is no progress, because a library may do that forever.

mod spinner;
mod streams;
mod timeouts;

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::time::{Duration, Instant};

use cudnn_os::child::Child;
use cudnn_os::interruption::Interruption;
use cudnn_os::memory_limits::MemoryLimits;
use cudnn_os::program::executable;
use cudnn_probe::facts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child_report::Step;
use crate::packages::quoted;
use crate::platform;
use spinner::Spinner;
use streams::Streams;

pub(crate) use crate::platform::cannot_start;
pub(crate) use timeouts::Timeouts;
/// The name that `cmd::fix` still uses.

/// How often the parent looks for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The number of messages that are kept.
const MAX_MESSAGES: usize = 10_000;

/// How a child process ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum End {
    /// By itself, or by a signal: the status, and a description of a failure to follow the name of the process.
    Exited { code: Option<i32>, failure: Option<String> },
    /// It was killed: it made no progress for this time.
    Hung(Duration),
    /// It was killed: a step, or all steps together, took longer than this.
    TooSlow(Duration),
}

impl End {
    /// How the process ended, to follow its name; `None` for success.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(match self {
            End::Exited { failure, .. } => return failure.clone(),
            End::Hung(limit) => format!("made no progress for {} s, and was ended", limit.as_secs()),
            End::TooSlow(limit) => format!("did not finish within {} s, and was ended", limit.as_secs()),
        })
    }

    /// Did the process end by itself, and by no signal?
    pub(crate) fn has_exited(&self) -> bool {
        matches!(self, End::Exited { code: Some(_), .. })
    }

    /// Did the parent end it?
    pub(crate) fn is_hang(&self) -> bool {
        !matches!(self, End::Exited { .. })
    }
}

/// A child process that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) end: End,
    /// The step that it began last.
    pub(crate) step: Option<Step>,
    /// Its other messages. One that a lack of memory explains says so: see [`LACK_OF_MEMORY`].
    pub(crate) messages: Vec<Value>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The lack of memory that explains its end, if one does.
    pub(crate) lack_of_memory: Option<String>,
}

/// The key of a message whose failure a lack of memory explains.
pub(crate) const LACK_OF_MEMORY: &str = "lack_of_memory";

cudnn_probe::portable!(Ended);

impl Ended {
    /// `, while it loaded libcudnn_ops.so.9`.
    pub(crate) fn during(&self) -> String {
        self.step.as_ref().map_or(String::new(), |step| format!(" while it {}", step.text))
    }
}

/// Runs the doctor with these arguments. In another directory: an empty or relative element of a search path must not lead
/// to libraries in the caller's working directory.
pub(crate) fn run(arguments: &[&OsStr], timeouts: &Timeouts) -> std::io::Result<Ended> {
    facts::ask("child process", words(arguments), || run_here(arguments, timeouts))
}

/// The arguments as a text that no other arguments have.
fn words(arguments: &[&OsStr]) -> String {
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    words.join(" ")
}

fn run_here(arguments: &[&OsStr], timeouts: &Timeouts) -> std::io::Result<Ended> {
    let mut command = this_program()?;
    command
        .args(arguments)
        .current_dir(platform::safe_working_dir())
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would mix with the child's output.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG");
    run_command(command, timeouts)
}

/// The command that starts this program as it was started.
pub(crate) fn this_program() -> std::io::Result<Command> {
    let program = executable()?;
    let mut words = cudnn_os::program::launcher().into_iter();
    let Some(loader) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(loader);
    command.args(words).arg(program);
    Ok(command)
}

/// Runs another program, which sends the same messages.
pub(crate) fn run_command(mut command: Command, timeouts: &Timeouts) -> std::io::Result<Ended> {
    let mut streams = Streams::default();
    command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
    // Its children must not outlive it, and a terminal is not for it.
    watch(command, streams, timeouts, true)
}

/// Runs this command line again in a child process, with this argument before the others, on the same terminal. It may fetch
/// a release.
pub(crate) fn supervise(first: &str, timeouts: &Timeouts) -> std::io::Result<Ended> {
    const LOG: &str = "CUDNN_LOGDEST_DBG";
    let mut command = this_program()?;
    command.arg(first).args(std::env::args_os().skip(1));
    // The child changes its working directory.
    let is_file = |value: &OsString| !["", "stdout", "stderr", "NULL"].iter().any(|name| value == name);
    if let Some(Ok(log)) = std::env::var_os(LOG).filter(is_file).map(std::path::absolute) {
        command.env(LOG, log);
    }
    watch(command, Streams::default(), &timeouts.for_many_steps(), false)
}

/// Starts the child, and waits for its end. One with a session of its own leaves no process behind, whether it ends by
/// itself, at a limit, or because a signal ends the doctor.
fn watch(mut command: Command, mut streams: Streams, timeouts: &Timeouts, has_session: bool) -> std::io::Result<Ended> {
    let limits = MemoryLimits::read();
    command.stdin(streams.reports.open_channel()?);
    let interruption = has_session.then(Interruption::catch);
    let mut child = Child::start(&mut command, has_session)?;
    // Closes this process's copies of the child's ends.
    drop(command);
    // A child without a session of its own has the terminal.
    let mut spinner = Spinner::new(has_session);
    let start = Instant::now();
    let (mut step, mut messages) = (None, Vec::new());
    let (mut step_start, mut progress, mut looked) = (start, start, start);
    let mut activity = None;
    // `None` if the child has ended by itself.
    let limit = loop {
        let has_ended = child.has_ended();
        let has_read = streams.read();
        while let Some(message) = streams.reports.take_message() {
            match Step::parse(&message) {
                Some(next) => {
                    step = Some(next);
                    (step_start, progress) = (Instant::now(), Instant::now());
                }
                None if messages.len() < MAX_MESSAGES => messages.push(with_lack_of_memory(message, &limits)),
                None => {}
            }
        }
        if has_ended || interruption.as_ref().and_then(Interruption::signal).is_some() {
            break None;
        }
        spinner.turn(step.as_ref());
        if looked.elapsed() > PROGRESS_INTERVAL {
            looked = Instant::now();
            let now = child.activity();
            if activity.is_some() && now != activity {
                progress = looked;
            }
            activity = now;
        }
        let (idle_limit, step_limit) = timeouts.limits(step.as_ref());
        if progress.elapsed() > idle_limit {
            break Some(End::Hung(idle_limit));
        }
        let times = [(step_start, step_limit), (start, timeouts.total)];
        if let Some((_, limit)) = times.into_iter().find(|(start, limit)| start.elapsed() > *limit) {
            break Some(End::TooSlow(limit));
        }
        // A child that writes waits for nothing.
        if !has_read {
            std::thread::sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(2) { 2 } else { 10 }));
        }
    };
    drop(spinner);
    let status = child.end()?;
    if let Some(signal) = interruption.as_ref().and_then(Interruption::signal) {
        cudnn_os::interruption::end_by(signal);
    }
    streams.read();
    let exited = status.map(|status| End::Exited {
        code: status.code(),
        failure: (!status.success()).then(|| cudnn_os::child::failure(status)),
    });
    let crash = status.filter(|_| limit.is_none()).and_then(cudnn_os::child::crash_number);
    let end = limit.or(exited).ok_or_else(|| std::io::Error::other("the child process has no status"))?;
    let (stdout, stderr) = (streams.stdout.into_text(), streams.stderr.into_text());
    let lack_of_memory = end.failure().and_then(|_| limits.explains(crash, &stderr));
    Ok(Ended { end, step, messages, stdout, stderr, lack_of_memory })
}

/// The message, with the lack of memory that explains it, if one does.
fn with_lack_of_memory(mut message: Value, limits: &MemoryLimits) -> Value {
    if let Some(reason) = limits.explains_message(&message.to_string())
        && let Some(message) = message.as_object_mut()
    {
        message.insert(LACK_OF_MEMORY.to_owned(), reason.into());
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_does_not_extend_the_run_for_ever() {
        let script = r#"IFS= read -r token
            while :; do printf '%s{"step":"compute","text":"computed"}\n' "$token" >&0; sleep 0.02; done"#;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut timeouts = Timeouts::new(Some(Duration::from_secs(60)));
        timeouts.total = Duration::from_millis(500);
        let start = Instant::now();
        let ended = run_command(command, &timeouts).unwrap();
        assert!(matches!(ended.end, End::TooSlow(_)), "{:?}", ended.end.failure());
        assert_eq!(ended.step.map(|step| step.text).as_deref(), Some("computed"));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
