//! Runs the doctor as a child process: libraries may crash or hang when they are loaded. The child reports the steps
//! that it begins; the parent ends it if it makes no progress, and knows what it was doing.
//!
//! Progress is a new step, or reading from a disk: a first start from a slow disk takes minutes, and is no hang. Using
//! the CPU is no progress, because a library may do that forever.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child_report::{Step, Work};
use crate::memory::MemoryLimits;

/// The parts of a child's output that are kept, in bytes: its beginning and its end.
const MAX_HEAD_LEN: usize = 1 << 20;
const MAX_TAIL_LEN: usize = 64 << 10;

/// The bytes that are read from a stream at once, so that a child that writes without end cannot keep its parent busy.
const MAX_READ_LEN: usize = 1 << 20;

/// The time in which a killed child must end. One that the kernel does not let go is abandoned.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The longest time of any child, whatever it reports.
const TOTAL_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);

/// How often the parent looks for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The time for which a command waits for its child processes while they make no progress.
pub(crate) struct Patience {
    /// The user's limit for each step.
    timeout: Option<Duration>,
    /// What is left for all steps together.
    left: Cell<Duration>,
}

impl Patience {
    /// The patience of one command. With a limit, each step has that one.
    pub(crate) fn new(timeout: Option<Duration>) -> Patience {
        Patience { timeout, left: Cell::new(Duration::from_secs(30)) }
    }

    /// How long a step may make no progress.
    fn limit(&self, step: Option<&Step>) -> Duration {
        let work = step.map_or(Work::Load, |step| step.work);
        let seconds = match work {
            Work::OpenDriver => 10,
            Work::Load => 20,
            Work::StartDriver => 30,
            // Compiling a kernel reads nothing.
            Work::Compute => 120,
            // pip has limits of its own.
            Work::Fetch => return TOTAL_LIMIT,
        };
        let limit = Duration::from_secs(seconds);
        match self.timeout {
            Some(timeout) => timeout,
            None if work == Work::Compute => limit,
            None => limit.min(self.left.get()),
        }
    }

    /// How long a step may take, even if it reads all the time.
    fn step_limit(&self, step: Option<&Step>) -> Duration {
        let seconds = match step.map(|step| step.work) {
            Some(Work::OpenDriver | Work::StartDriver) => 60,
            Some(Work::Fetch) => return TOTAL_LIMIT,
            _ => 600,
        };
        Duration::from_secs(seconds).max(self.timeout.unwrap_or_default())
    }
}

/// How a child process ended.
pub(crate) enum End {
    /// By itself, or by a signal.
    Exited(ExitStatus),
    /// It was killed: it made no progress for this time.
    Hung(Duration),
    /// It was killed: a step took longer than this.
    TooSlow(Duration),
}

impl End {
    /// How the process ended, to follow its name; `None` for success.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(match self {
            End::Exited(status) if status.success() => return None,
            End::Exited(status) => match status.signal() {
                Some(signal) => format!("was ended by signal {signal}{}", signal_name(signal)),
                None => format!("failed with {status}"),
            },
            End::Hung(limit) => format!("made no progress for {} s, and was ended", limit.as_secs()),
            End::TooSlow(limit) => format!("did not finish within {} s, and was ended", limit.as_secs()),
        })
    }

    fn signal(&self) -> Option<i32> {
        if let End::Exited(status) = self { status.signal() } else { None }
    }

    /// Did the parent end it?
    pub(crate) fn is_hang(&self) -> bool {
        !matches!(self, End::Exited(_))
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        _ => "",
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
        self.end.failure().and_then(|_| self.limits.explains(self.end.signal(), &self.stderr))
    }

    /// `, while it loaded libcudnn_ops.so.9`.
    pub(crate) fn during(&self) -> String {
        self.step.as_ref().map_or(String::new(), |step| format!(" while it {}", step.text))
    }
}

/// Runs the doctor with these arguments. In the root directory: an empty or relative element of LD_LIBRARY_PATH must
/// not lead to libraries in the caller's working directory.
pub(crate) fn run(arguments: &[&OsStr], patience: &Patience) -> std::io::Result<Ended> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(arguments)
        .current_dir("/")
        .env("RUST_BACKTRACE", "0")
        // cuDNN's log would mix with the child's output.
        .env_remove("CUDNN_LOGDEST_DBG")
        .env_remove("CUDNN_LOGLEVEL_DBG");
    run_command(command, patience)
}

/// Runs another program, which sends the same messages.
pub(crate) fn run_command(mut command: Command, patience: &Patience) -> std::io::Result<Ended> {
    let mut streams = Streams::default();
    command.stdout(streams.stdout.open()?).stderr(streams.stderr.open()?);
    watch(command, streams, patience)
}

/// Runs this command line again in a child process, with this argument before the others, on the same terminal.
pub(crate) fn supervise(first: &str, patience: &Patience) -> std::io::Result<Ended> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(first).args(std::env::args_os().skip(1));
    // The child changes its working directory.
    if let Some(log) = absolute_log(std::env::var_os("CUDNN_LOGDEST_DBG")) {
        command.env("CUDNN_LOGDEST_DBG", log);
    }
    watch(command, Streams::default(), patience)
}

/// The log's destination with an absolute path, if it is a file.
fn absolute_log(destination: Option<OsString>) -> Option<OsString> {
    let destination = destination.filter(|value| !["", "stdout", "stderr", "NULL"].iter().any(|name| value == name))?;
    std::path::absolute(Path::new(&destination)).ok().map(Into::into)
}

/// The child's streams, as the parent reads them.
#[derive(Default)]
struct Streams {
    reports: Stream,
    stdout: Stream,
    stderr: Stream,
}

impl Streams {
    /// Keeps what the child has written. Returns whether there was anything.
    fn read(&mut self) -> bool {
        self.reports.read() | self.stdout.read() | self.stderr.read()
    }
}

/// The parent's end of a stream, which is read without waiting: a child of the child may have the other end open
/// forever.
#[derive(Default)]
struct Stream {
    pipe: Option<PipeReader>,
    head: Vec<u8>,
    tail: Vec<u8>,
    omitted: usize,
}

impl Stream {
    /// The child's end.
    fn open(&mut self) -> std::io::Result<Stdio> {
        let (ours, childs) = std::io::pipe()?;
        // SAFETY: the descriptor is open, and the command takes a number.
        if unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        self.pipe = Some(ours);
        Ok(childs.into())
    }

    /// Keeps what the child has written. Returns whether there was anything.
    fn read(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let (mut block, mut total) = ([0u8; 1 << 14], 0);
        while total < MAX_READ_LEN {
            match pipe.read(&mut block) {
                Ok(len @ 1..) => {
                    total += len;
                    let (bytes, _) = block.split_at(len);
                    let (head, rest) = bytes.split_at(len.min(MAX_HEAD_LEN.saturating_sub(self.head.len())));
                    self.head.extend_from_slice(head);
                    self.tail.extend_from_slice(rest);
                    let excess = self.tail.len().saturating_sub(MAX_TAIL_LEN);
                    self.tail.drain(..excess);
                    self.omitted += excess;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        total > 0
    }

    /// The first complete line, which leaves the stream.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.head.iter().position(|byte| *byte == b'\n')?;
        Some(self.head.drain(..=end).collect())
    }

    fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.omitted > 0 {
            text.push_str(&format!("\n({} bytes are not shown)\n", self.omitted));
        }
        text + &String::from_utf8_lossy(&self.tail)
    }
}

/// Starts the child, and waits for its end.
fn watch(mut command: Command, mut streams: Streams, patience: &Patience) -> std::io::Result<Ended> {
    let limits = MemoryLimits::read();
    let mut child = command.stdin(streams.reports.open()?).spawn()?;
    // Closes this process's copies of the child's ends.
    std::mem::drop(command);
    let start = Instant::now();
    let (mut step, mut messages) = (None, Vec::new());
    let (mut step_start, mut progress, mut looked) = (start, start, start);
    let mut activity = None;
    let end = loop {
        let status = child.try_wait()?;
        let has_read = streams.read();
        while let Some(line) = streams.reports.take_line() {
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            match Step::parse(&message) {
                Some(next) => {
                    step = Some(next);
                    (step_start, progress) = (Instant::now(), Instant::now());
                }
                None => messages.push(message),
            }
        }
        if let Some(status) = status {
            break End::Exited(status);
        }
        if looked.elapsed() > PROGRESS_INTERVAL {
            looked = Instant::now();
            let now = disk_activity(child.id());
            if activity.is_some() && now != activity {
                progress = looked;
            }
            activity = now;
        }
        let (limit, step_limit) = (patience.limit(step.as_ref()), patience.step_limit(step.as_ref()));
        if progress.elapsed() > limit {
            patience.left.set(patience.left.get().saturating_sub(limit));
            break End::Hung(limit);
        }
        if step_start.elapsed() > step_limit || start.elapsed() > TOTAL_LIMIT {
            break End::TooSlow(step_limit);
        }
        // A child that writes waits for nothing.
        if !has_read {
            std::thread::sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(2) { 2 } else { 10 }));
        }
    };
    if end.is_hang() {
        kill(&mut child)?;
        streams.read();
    }
    let (stdout, stderr) = (streams.stdout.into_text(), streams.stderr.into_text());
    Ok(Ended { end, step, messages, stdout, stderr, limits })
}

fn kill(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    let start = Instant::now();
    // A process that waits in a driver or for a file server may not end.
    while child.try_wait()?.is_none() && start.elapsed() < KILL_LIMIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// How much the process has read, in bytes, and how often it waited for a page of a file. `None` if the kernel does not
/// tell.
fn disk_activity(process: u32) -> Option<(u64, u64)> {
    // The name of the program, in parentheses, may contain anything. The faults that read a disk are the 12th field.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let faults = stat.rsplit_once(") ")?.1.split(' ').nth(9)?.parse().ok()?;
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let read = io.lines().filter(|line| line.starts_with("rchar: ") || line.starts_with("read_bytes: "));
    let read = read.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum();
    Some((read, faults))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_children_of_a_command_share_the_time_without_progress() {
        let step = |work| Step { work, text: String::new() };
        let patience = Patience::new(None);
        assert_eq!(patience.limit(Some(&step(Work::StartDriver))).as_secs(), 30);
        patience.left.set(Duration::from_secs(5));
        assert_eq!(patience.limit(Some(&step(Work::Load))).as_secs(), 5);
        assert_eq!(patience.limit(Some(&step(Work::Compute))).as_secs(), 120);
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let mut stream = Stream::default();
        let script = "echo first; head -c 2000000 /dev/zero | tr '\\0' x; echo; echo last";
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).stdout(stream.open().unwrap()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            stream.read();
        }
        while stream.read() {}
        let text = stream.into_text();
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n") && text.contains("bytes are not shown"));
        assert!(text.len() < MAX_HEAD_LEN + MAX_TAIL_LEN + 100);
    }
}
