//! Runs the doctor or a framework's Python as a child process: libraries may crash or hang when they are loaded. The child
//! reports the steps that it begins; the parent ends it if it makes no progress, and knows what it was doing.
//!
//! Progress is a new step, or reading from a disk: a first start from a slow disk takes minutes, and is no hang. Using
//! the CPU is no progress, because a library may do that forever.

mod patience;
mod streams;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child_report::Step;
use crate::platform::{self, Child, Interruption, MemoryLimits, executable};
use streams::Streams;

pub(crate) use crate::platform::cannot_start;
pub(crate) use patience::Patience;

/// How often the parent looks for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The number of messages that are kept.
const MAX_MESSAGES: usize = 10_000;

/// How a child process ended.
pub(crate) enum End {
    /// By itself, or by a signal.
    Exited(ExitStatus),
    /// It was killed: it made no progress for this time.
    Hung(Duration),
    /// It was killed: a step, or all steps together, took longer than this.
    TooSlow(Duration),
}

impl End {
    /// How the process ended, to follow its name; `None` for success.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(match self {
            End::Exited(status) if status.success() => return None,
            End::Exited(status) => platform::failure(*status),
            End::Hung(limit) => format!("made no progress for {} s, and was ended", limit.as_secs()),
            End::TooSlow(limit) => format!("did not finish within {} s, and was ended", limit.as_secs()),
        })
    }

    fn crash_number(&self) -> Option<i32> {
        if let End::Exited(status) = self { platform::crash_number(*status) } else { None }
    }

    /// Did the process end by itself, and by no signal?
    pub(crate) fn has_exited(&self) -> bool {
        matches!(self, End::Exited(status) if status.code().is_some())
    }

    /// Did the parent end it?
    pub(crate) fn is_hang(&self) -> bool {
        !matches!(self, End::Exited(_))
    }
}

/// A child process that has ended.
pub(crate) struct Ended {
    pub(crate) end: End,
    /// The step that it began last.
    pub(crate) step: Option<Step>,
    /// Its other messages.
    pub(crate) messages: Vec<Value>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The limits of its memory.
    pub(crate) limits: MemoryLimits,
}

impl Ended {
    /// The lack of memory that explains its end, if one does.
    pub(crate) fn lack_of_memory(&self) -> Option<String> {
        self.end.failure().and_then(|_| self.limits.explains(self.end.crash_number(), &self.stderr))
    }

    /// `, while it loaded libcudnn_ops.so.9`.
    pub(crate) fn during(&self) -> String {
        self.step.as_ref().map_or(String::new(), |step| format!(" while it {}", step.text))
    }
}

/// Runs the doctor with these arguments. In another directory: an empty or relative element of a search path must not lead
/// to libraries in the caller's working directory.
pub(crate) fn run(arguments: &[&OsStr], patience: &Patience) -> std::io::Result<Ended> {
    let mut command = this_program()?;
    command
        .args(arguments)
        .current_dir(platform::safe_working_dir())
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would mix with the child's output.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG");
    run_command(command, patience)
}

/// The command that starts this program as it was started.
fn this_program() -> std::io::Result<Command> {
    let program = executable()?;
    let mut words = platform::launcher().into_iter();
    let Some(loader) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(loader);
    command.args(words).arg(program);
    Ok(command)
}

/// Runs another program, which sends the same messages.
pub(crate) fn run_command(mut command: Command, patience: &Patience) -> std::io::Result<Ended> {
    let mut streams = Streams::default();
    command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
    // Its children must not outlive it, and a terminal is not for it.
    watch(command, streams, patience, true)
}

/// Runs this command line again in a child process, with this argument before the others, on the same terminal.
pub(crate) fn supervise(first: &str, patience: &Patience) -> std::io::Result<Ended> {
    let mut command = this_program()?;
    command.arg(first).args(std::env::args_os().skip(1));
    // The child changes its working directory.
    if let Some(log) = absolute_log(std::env::var_os("CUDNN_LOGDEST_DBG")) {
        command.env("CUDNN_LOGDEST_DBG", log);
    }
    watch(command, Streams::default(), patience, false)
}

/// The log's destination with an absolute path, if it is a file.
fn absolute_log(destination: Option<OsString>) -> Option<OsString> {
    let destination = destination.filter(|value| !["", "stdout", "stderr", "NULL"].iter().any(|name| value == name))?;
    std::path::absolute(Path::new(&destination)).ok().map(Into::into)
}

/// Starts the child, and waits for its end. One with a session of its own leaves no process behind, whether it ends by
/// itself, at a limit, or because a signal ends the doctor.
fn watch(mut command: Command, mut streams: Streams, patience: &Patience, has_session: bool) -> std::io::Result<Ended> {
    let limits = MemoryLimits::read();
    command.stdin(streams.reports.open_channel()?);
    let interruption = has_session.then(Interruption::catch);
    let mut child = Child::start(&mut command, has_session)?;
    // Closes this process's copies of the child's ends.
    std::mem::drop(command);
    let start = Instant::now();
    let (mut step, mut messages) = (None, Vec::new());
    let (mut step_start, mut progress, mut looked) = (start, start, start);
    let mut activity = None;
    let mut signal = None;
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
                None if messages.len() < MAX_MESSAGES => messages.push(message),
                None => {}
            }
        }
        if has_ended {
            break None;
        }
        signal = interruption.as_ref().and_then(Interruption::signal);
        if signal.is_some() {
            break None;
        }
        if looked.elapsed() > PROGRESS_INTERVAL {
            looked = Instant::now();
            let now = child.activity();
            if activity.is_some() && now != activity {
                progress = looked;
            }
            activity = now;
        }
        let (limit, step_limit) = (patience.limit(step.as_ref()), patience.step_limit(step.as_ref()));
        if progress.elapsed() > limit {
            break Some(End::Hung(limit));
        }
        if step_start.elapsed() > step_limit {
            break Some(End::TooSlow(step_limit));
        }
        let total = patience.total(has_session);
        if start.elapsed() > total {
            break Some(End::TooSlow(total));
        }
        // A child that writes waits for nothing.
        if !has_read {
            std::thread::sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(2) { 2 } else { 10 }));
        }
    };
    let status = child.end()?;
    if let Some(signal) = signal {
        platform::end_by(signal);
    }
    streams.read();
    let end = match (limit, status) {
        (Some(limit), _) => limit,
        (None, Some(status)) => End::Exited(status),
        (None, None) => return Err(std::io::Error::other("the child process has no status")),
    };
    let (stdout, stderr) = (streams.stdout.into_text(), streams.stderr.into_text());
    Ok(Ended { end, step, messages, stdout, stderr, limits })
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
        let patience = Patience::new(Some(Duration::from_secs(60))).with_total(Duration::from_millis(500));
        let start = Instant::now();
        let ended = run_command(command, &patience).unwrap();
        assert!(matches!(ended.end, End::TooSlow(_)), "{:?}", ended.end.failure());
        assert_eq!(ended.step.map(|step| step.text).as_deref(), Some("computed"));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
