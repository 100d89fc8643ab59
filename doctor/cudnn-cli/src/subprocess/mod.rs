//! Runs this program or a framework's Python as a child process, because libraries may crash or hang while loading.
//!
//! The child reports its steps. If it makes no progress, the parent ends it and reports the current step. Both a new
//! step and disk reads count as progress, because a first start from a slow disk can take minutes. CPU time does not
//! count, because a hanging library may use the CPU forever.

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
use crate::platform;
use crate::quoting::quoted;
use crate::temporary;
use spinner::Spinner;
use streams::Streams;

pub use crate::platform::cannot_start;
pub use timeouts::Timeouts;

/// How often the parent checks for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of stored messages.
const MAX_MESSAGES: usize = 10_000;

/// How a child process exited.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum End {
    /// It exited or was killed by a signal.
    Exited {
        /// The exit status, or `None` after a signal.
        code: Option<i32>,
        /// A clause that follows the name of the process, or `None` for success.
        failure: Option<String>,
    },
    /// It was killed after making no progress for this time.
    Hung(Duration),
    /// It was killed because a step, or all steps together, exceeded this time.
    TooSlow(Duration),
}

impl End {
    /// Describes a failure as a clause after the name of the process. Returns `None` for success.
    pub fn failure(&self) -> Option<String> {
        Some(match self {
            End::Exited { failure, .. } => return failure.clone(),
            End::Hung(limit) => format!("made no progress for {} s, and was ended", limit.as_secs()),
            End::TooSlow(limit) => format!("did not finish within {} s, and was ended", limit.as_secs()),
        })
    }

    /// Returns whether the process exited without a signal.
    pub fn has_exited(&self) -> bool {
        matches!(self, End::Exited { code: Some(_), .. })
    }

    /// Returns whether the parent killed the process.
    pub fn is_hang(&self) -> bool {
        !matches!(self, End::Exited { .. })
    }
}

/// A child process after it has exited.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// How it exited.
    pub end: End,
    /// The last step that it started.
    pub step: Option<Step>,
    /// The remaining messages. If a memory shortage explains a failure, the message contains [`LACK_OF_MEMORY`].
    pub messages: Vec<Value>,
    /// What it printed to stdout, shortened if it is long.
    pub stdout: String,
    /// What it printed to stderr, shortened if it is long.
    pub stderr: String,
    /// A description of the memory shortage that killed the process, if any.
    pub lack_of_memory: Option<String>,
}

/// The message key that describes a memory shortage.
pub const LACK_OF_MEMORY: &str = "lack_of_memory";

cudnn_probe::portable!(Ended);

impl Ended {
    /// Formats a clause such as `, while it loaded libcudnn_ops.so.9`.
    pub fn during(&self) -> String {
        self.step.as_ref().map_or(String::new(), |step| format!(" while it {}", step.text))
    }
}

/// Runs this program with these arguments in a safe working directory. Otherwise an empty or relative element of a
/// search path could select libraries in the caller's directory.
///
/// # Errors
/// Returns an error if this program is not found, or the system cannot start a process.
pub fn run(arguments: &[&OsStr], timeouts: &Timeouts) -> std::io::Result<Ended> {
    facts::ask("child process", words(arguments), || run_here(arguments, timeouts))
}

/// Encodes the arguments as an unambiguous text.
fn words(arguments: &[&OsStr]) -> String {
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    words.join(" ")
}

fn run_here(arguments: &[&OsStr], timeouts: &Timeouts) -> std::io::Result<Ended> {
    run_command(again(arguments)?, timeouts)
}

/// Returns the command that runs this program with these arguments in a safe working directory.
///
/// # Errors
/// Returns an error if this program is not found, or the system cannot start a process.
pub fn again(arguments: &[&OsStr]) -> std::io::Result<Command> {
    let mut command = this_program()?;
    command
        .args(arguments)
        .current_dir(platform::safe_working_dir())
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would mix with the child's output.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG");
    Ok(command)
}

/// Returns a command that starts this program again in the same way.
///
/// # Errors
/// Returns an error if this program is not found, or the system cannot start a process.
pub fn this_program() -> std::io::Result<Command> {
    let program = executable()?;
    let mut words = cudnn_os::program::launcher().into_iter();
    let Some(loader) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(loader);
    command.args(words).arg(program);
    Ok(command)
}

/// Runs a program that sends the same kind of messages.
///
/// # Errors
/// Returns an error if this program is not found, or the system cannot start a process.
pub fn run_command(mut command: Command, timeouts: &Timeouts) -> std::io::Result<Ended> {
    let mut streams = Streams::default();
    command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
    // A separate session lets the parent kill all descendants, and detaches them from the terminal.
    watch(command, streams, timeouts, true)
}

/// Runs this command line again in a child process on the same terminal, with one argument added in front. The time
/// limit allows for fetching a release.
///
/// # Errors
/// Returns an error if this program is not found, or the system cannot start a process.
pub fn supervise(first: &str, timeouts: &Timeouts) -> std::io::Result<Ended> {
    const LOG: &str = "CUDNN_LOGDEST_DBG";
    let mut command = this_program()?;
    command.arg(first).args(std::env::args_os().skip(1));
    // The path must be absolute, because the child changes its working directory.
    let is_file = |value: &OsString| !["", "stdout", "stderr", "NULL"].iter().any(|name| value == name);
    if let Some(Ok(log)) = std::env::var_os(LOG).filter(is_file).map(std::path::absolute) {
        command.env(LOG, log);
    }
    watch(command, Streams::default(), &timeouts.for_many_steps(), false)
}

/// Starts the child and waits until it exits. In a separate session, all descendants are killed with the child, even
/// after a timeout or if this program is interrupted.
fn watch(mut command: Command, mut streams: Streams, timeouts: &Timeouts, has_session: bool) -> std::io::Result<Ended> {
    let limits = MemoryLimits::read();
    command.stdin(streams.reports.open_channel()?);
    let interruption = has_session.then(Interruption::catch);
    let mut child = Child::start(command, has_session)?;
    // Without a separate session, the child uses the terminal.
    let mut spinner = Spinner::new(has_session);
    let start = Instant::now();
    let (mut step, mut messages) = (None, Vec::new());
    let (mut step_start, mut progress, mut looked) = (start, start, start);
    let mut activity = None;
    // `None` if the child exited by itself.
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
        // If the child is producing output, read again without waiting.
        if !has_read {
            std::thread::sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(2) { 2 } else { 10 }));
        }
    };
    drop(spinner);
    let status = child.end()?;
    if let Some(signal) = interruption.as_ref().and_then(Interruption::signal) {
        temporary::end_by(signal);
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

/// Adds a description of the memory shortage to a message, if one explains the failure.
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
