//! Runs this program or a framework's Python as a child process, because libraries may crash or hang while loading.
//!
//! The parent ends a child without progress and reports its current step. New steps and disk reads are progress,
//! because a first start from a slow disk can take minutes. CPU time is not, because a hanging library may use it
//! forever.

mod spinner;
mod streams;
mod timeouts;
mod worker;

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::time::{Duration, Instant};

use cudnn_os::child::Child;
use cudnn_os::interruption::{Interruption, Signal};
use cudnn_os::memory_limits::MemoryLimits;
use cudnn_os::program::executable;
use cudnn_probe::facts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child_report::ChildStep;
use crate::output::require_output;
use crate::platform;
use crate::quoting::quoted;
use crate::temporary;
use streams::Streams;

pub use crate::platform::cannot_start;
pub use spinner::Spinner;
pub use timeouts::Timeouts;
pub use worker::{Answer, Worker};

/// The interval at which the parent checks for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

const MAX_MESSAGES: usize = 10_000;

/// How a child process ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum End {
    /// It exited or was killed by a signal.
    Exited {
        /// The exit status, or `None` after a signal.
        code: Option<i32>,
        /// A clause to follow the name of the process, or `None` for success.
        failure: Option<String>,
    },
    /// It was killed after this time without progress.
    Hung(Duration),
    /// It was killed because a step, or all steps together, took longer than this time.
    TooSlow(Duration),
}

impl End {
    /// Describes a failure as a clause to follow the name of the process. Returns `None` for success.
    pub fn failure(&self) -> Option<String> {
        Some(match self {
            End::Exited { failure, .. } => return failure.clone(),
            End::Hung(limit) => format!("made no progress for {} s, and was ended", limit.as_secs()),
            End::TooSlow(limit) => format!("did not finish within {} s, and was ended", limit.as_secs()),
        })
    }

    /// Returns whether the steps together exceeded the overall limit.
    pub fn is_overall_limit(&self, timeouts: &Timeouts) -> bool {
        matches!(self, End::TooSlow(limit) if *limit == timeouts.total)
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
    /// The last step.
    pub step: Option<ChildStep>,
    /// The other messages. If a memory shortage explains a failure, the message contains [`LACK_OF_MEMORY`].
    pub messages: Vec<Value>,
    /// The output on stdout, shortened if it is long.
    pub stdout: String,
    /// The output on stderr, shortened if it is long.
    pub stderr: String,
    /// The memory shortage that killed the process, if any.
    pub lack_of_memory: Option<String>,
}

/// The key of a memory shortage in a message.
pub const LACK_OF_MEMORY: &str = "lack_of_memory";

cudnn_probe::portable!(Ended);

impl Ended {
    /// Returns a clause such as `, while it loaded libcudnn_ops.so.9`.
    pub fn during(&self) -> String {
        self.step.as_ref().map_or(String::new(), |step| format!(" while it {}", step.text))
    }
}

/// Runs this program with these arguments in a safe working directory, because an empty or relative element of a search
/// path must not select libraries of the caller's directory.
///
/// # Errors
/// Returns an error if this program is not found or the system cannot start a process.
pub fn run(arguments: &[&OsStr], timeouts: &Timeouts) -> std::io::Result<Ended> {
    facts::ask_program("child process", words(arguments), || run_here(arguments, timeouts))
}

/// Encodes arguments as an unambiguous text.
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
/// Returns an error if this program is not found.
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

/// Returns a command that starts this program again.
///
/// # Errors
/// Returns an error if this program is not found.
pub fn this_program() -> std::io::Result<Command> {
    let program = executable()?;
    let mut words = cudnn_os::program::launcher().into_iter();
    let Some(loader) = words.next() else { return Ok(Command::new(program)) };
    let mut command = Command::new(loader);
    command.args(words).arg(program);
    Ok(command)
}

/// Runs another command, such as a framework's Python, which may also report steps and messages.
///
/// # Errors
/// Returns an error if the program is not found or the system cannot start a process.
pub fn run_command(mut command: Command, timeouts: &Timeouts) -> std::io::Result<Ended> {
    let mut streams = Streams::default();
    command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
    // In a separate session without a terminal, the parent can kill all descendants.
    watch(command, streams, timeouts, true)
}

/// Runs this command line again in a child process on the same terminal, with an additional first argument. The time
/// limit allows for fetching a release.
///
/// # Errors
/// Returns an error if this program is not found or the system cannot start a process.
pub fn supervise(first: &str, timeouts: &Timeouts) -> std::io::Result<Ended> {
    const LOG: &str = "CUDNN_LOGDEST_DBG";
    // The child would write to the /dev/null that std opens for a closed output, so check the output here.
    require_output();
    let mut command = this_program()?;
    command.arg(first).args(std::env::args_os().skip(1));
    // The child changes its working directory.
    let is_file = |value: &OsString| !["", "stdout", "stderr", "NULL"].iter().any(|name| value == name);
    if let Some(Ok(log)) = std::env::var_os(LOG).filter(is_file).map(std::path::absolute) {
        command.env(LOG, log);
    }
    watch(command, Streams::default(), &timeouts.for_many_steps(), false)
}

/// Starts the child and waits until it exits. With a separate session, all descendants are killed then, and also if
/// this program is interrupted.
fn watch(command: Command, streams: Streams, timeouts: &Timeouts, has_session: bool) -> std::io::Result<Ended> {
    let mut running = Running::start(command, streams, timeouts, has_session)?;
    // A child without a session uses the terminal itself.
    let mut spinner = Spinner::new(has_session);
    let stop = loop {
        match running.poll() {
            Some(stop) => break stop,
            None => spinner.turn(|| running.step.as_ref().map_or("starting", |step| step.work.activity())),
        }
    };
    drop(spinner);
    match stop {
        Stop::Ended => running.end(None),
        Stop::Limit(limit) => running.end(Some(limit)),
        Stop::Interrupted(signal) => {
            running.child.end()?;
            temporary::end_by(signal)
        }
    }
}

struct Running<'a> {
    child: Child,
    streams: Streams,
    timeouts: &'a Timeouts,
    /// `None` if signals also reach the child.
    interruption: Option<Interruption>,
    memory_limits: MemoryLimits,
    step: Option<ChildStep>,
    messages: Vec<Value>,
    /// The start of the child or its current request, and of the step.
    start: Instant,
    step_start: Instant,
    /// The times of the last progress and of the last look at the activity.
    progress: Instant,
    looked: Instant,
    activity: Option<(u64, u64)>,
}

enum Stop {
    Ended,
    Limit(End),
    Interrupted(Signal),
}

impl<'a> Running<'a> {
    fn start(
        mut command: Command,
        mut streams: Streams,
        timeouts: &'a Timeouts,
        has_session: bool,
    ) -> std::io::Result<Self> {
        let memory_limits = MemoryLimits::read();
        command.stdin(streams.reports.open_channel()?);
        let interruption = has_session.then(Interruption::catch);
        let child = Child::start(command, has_session)?;
        let now = Instant::now();
        Ok(Running {
            child,
            streams,
            timeouts,
            interruption,
            memory_limits,
            step: None,
            messages: Vec::new(),
            start: now,
            step_start: now,
            progress: now,
            looked: now,
            activity: None,
        })
    }

    /// Exchanges messages, and waits for a moment if the child is silent.
    fn poll(&mut self) -> Option<Stop> {
        let has_ended = self.child.has_ended();
        self.streams.reports.write();
        let has_read = self.streams.read();
        while let Some(message) = self.streams.reports.take_message() {
            match ChildStep::parse(&message) {
                Some(next) => {
                    self.step = Some(next);
                    (self.step_start, self.progress) = (Instant::now(), Instant::now());
                }
                None if self.messages.len() < MAX_MESSAGES => {
                    self.messages.push(with_lack_of_memory(message, &self.memory_limits));
                }
                None => {}
            }
        }
        if let Some(signal) = self.interruption.as_ref().and_then(Interruption::signal) {
            return Some(Stop::Interrupted(signal));
        }
        if has_ended {
            return Some(Stop::Ended);
        }
        if self.looked.elapsed() > PROGRESS_INTERVAL {
            self.looked = Instant::now();
            let now = self.child.activity();
            if self.activity.is_some() && now != self.activity {
                self.progress = self.looked;
            }
            self.activity = now;
        }
        let (idle_limit, step_limit) = self.timeouts.limits(self.step.as_ref());
        if self.progress.elapsed() > idle_limit {
            return Some(Stop::Limit(End::Hung(idle_limit)));
        }
        let times = [(self.step_start, step_limit), (self.start, self.timeouts.total)];
        if let Some((_, limit)) = times.into_iter().find(|(start, limit)| start.elapsed() > *limit) {
            return Some(Stop::Limit(End::TooSlow(limit)));
        }
        // A child with output may have more.
        if !has_read {
            let is_young = self.start.elapsed() < Duration::from_secs(2);
            std::thread::sleep(Duration::from_millis(if is_young { 2 } else { 10 }));
        }
        None
    }

    /// Ends the child if it is running, because it exceeds `limit`.
    fn end(mut self, limit: Option<End>) -> std::io::Result<Ended> {
        let status = self.child.end()?;
        self.streams.read();
        let exited = status.map(|status| End::Exited {
            code: status.code(),
            failure: (!status.success()).then(|| cudnn_os::child::failure(status)),
        });
        let crash = status.filter(|_| limit.is_none()).and_then(cudnn_os::child::crash_number);
        let end = limit.or(exited).ok_or_else(|| std::io::Error::other("the child process has no status"))?;
        let (stdout, stderr) = (self.streams.stdout.into_text(), self.streams.stderr.into_text());
        let lack_of_memory = end.failure().and_then(|_| self.memory_limits.explains(crash, &stderr));
        Ok(Ended { end, step: self.step, messages: self.messages, stdout, stderr, lack_of_memory })
    }
}

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
    fn a_slow_step_does_not_exceed_the_overall_limit() {
        let timeouts = Timeouts::new(None).for_many_steps();
        assert!(End::TooSlow(timeouts.total).is_overall_limit(&timeouts));
        for end in [End::TooSlow(Duration::from_secs(600)), End::Hung(Duration::from_secs(120))] {
            assert!(!end.is_overall_limit(&timeouts), "{end:?}");
        }
    }

    #[test]
    fn progress_does_not_extend_the_run_for_ever() {
        let script = r#"IFS= read -r token
            while :; do printf '%s{"work":"Compute","text":"computed"}\n' "$token" >&0; sleep 0.02; done"#;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut timeouts = Timeouts::new(Some(Duration::from_secs(60)));
        timeouts.total = Duration::from_millis(500);
        let start = Instant::now();
        let ended = run_command(command, &timeouts).unwrap();
        assert!(ended.end.is_overall_limit(&timeouts), "{:?}", ended.end.failure());
        assert_eq!(ended.step.map(|step| step.text).as_deref(), Some("computed"));
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
