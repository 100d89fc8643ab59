//! Child processes. With a session of its own, a child leaves no process behind: this process inherits those that leave the
//! session, and ends them when the child has ended.

use std::io::{Error, Result, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child as Started, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::watch::watch;

/// Prepares this process: its parent may have made it ignore the ends of its children, whose statuses would be lost; and a
/// file that may not grow is an error, and no signal. To be called before there is a second thread.
pub fn prepare() {
    // A handler, because a program that this process starts would inherit that the signal is ignored.
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the process has one thread, and no handler of these signals; the handler does nothing.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        // Who has started this process may ignore the signal for all programs, as Python does.
        if libc::signal(libc::SIGXFSZ, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Makes this process end when its parent ends: nobody else would end it if a library hangs.
pub fn end_with_parent() {
    // SAFETY: the call changes a setting of this process, and takes a signal.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // It fails for no signal that exists.
    debug_assert_eq!(result, 0);
}

/// Makes the child that this command starts end when this process ends.
pub fn end_child_with_this_process(command: &mut Command) {
    // SAFETY: the function makes one system call, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            end_with_parent();
            Ok(())
        })
    };
}

/// Keeps Ctrl-C from the child that this command starts: it finishes what it has begun, and this process decides what comes
/// after it.
pub fn keep_from_interruption(command: &mut Command) {
    command.process_group(0);
}

/// Starts the program of this command in place of this one, in the same process. Returns only if that fails. Another
/// process calls `then` when the program has ended.
pub fn become_program(command: &mut Command, then: Option<&dyn Fn()>) -> Error {
    let watcher = then.and_then(|then| watch(then).ok());
    let error = command.exec();
    if let Some(mut watcher) = watcher {
        let _ = watcher.write_all(b"!");
    }
    error
}

/// Returns the signal that ended a process.
#[must_use]
pub fn crash_number(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Describes how a process failed, to follow its name.
#[must_use]
pub fn failure(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}{}", signal_name(signal)),
        None => format!("failed with {status}"),
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

/// The time in which killed processes must end. One that the kernel does not let go is abandoned.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The time between two looks at a killed process.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// The children that are watched now: each is the leader of its session.
static WATCHED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The children that this process had when it started: those of a shell that was replaced by this program.
static STRANGERS: OnceLock<Vec<u32>> = OnceLock::new();

/// A child process. With a session, it has no terminal, and its end is that of each process that it has started.
pub struct Child {
    started: Started,
    has_session: bool,
}

impl Child {
    /// Starts the command.
    ///
    /// # Errors
    /// The system's.
    pub fn start(command: &mut Command, has_session: bool) -> Result<Child> {
        if !has_session {
            return Ok(Child { started: command.spawn()?, has_session });
        }
        // SAFETY: the function makes one system call, which is allowed between fork and exec.
        unsafe { command.pre_exec(new_session) };
        Ok(Child { started: spawn(command)?, has_session })
    }

    /// Whether the child has ended. Its process ID stays in use until [`Child::end`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(&self.started)
    }

    /// Ends the child if it still runs, and with a session each process that it has started. Returns how it ended; `None`
    /// if the kernel does not let it go.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        end(&mut self.started, self.has_session)
    }

    /// Returns how much the process has read, in bytes, and how often it waited for a page of a file. `None` if the kernel does
    /// not tell.
    #[must_use]
    pub fn activity(&self) -> Option<(u64, u64)> {
        let process = self.started.id();
        // The faults that read a disk are the 12th field.
        let faults = stat(process, 9)?.try_into().ok()?;
        let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let read = io.lines().filter(|line| line.starts_with("rchar: ") || line.starts_with("read_bytes: "));
        let read = read.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum();
        Some((read, faults))
    }
}

/// Gives this process a session, without a terminal. For the time between fork and exec.
fn new_session() -> Result<()> {
    // SAFETY: the call takes nothing.
    if unsafe { libc::setsid() } < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Starts a child with a session.
fn spawn(command: &mut Command) -> Result<Started> {
    let mut watched = watched();
    STRANGERS.get_or_init(children);
    // Orphans of the child become children of this process. Without that, those that have left its session stay.
    //
    // SAFETY: the call changes a setting of this process, and takes a number.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let child = command.spawn()?;
    watched.push(child.id());
    Ok(child)
}

fn has_ended(child: &Started) -> bool {
    has_children_to_wait_for(libc::P_PID, child.id()) != Some(false)
}

fn end(child: &mut Started, has_session: bool) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    if has_session {
        kill_group(child.id());
    }
    if !has_ended(child) {
        child.kill()?;
        while !has_ended(child) && start.elapsed() < KILL_LIMIT {
            std::thread::sleep(KILL_INTERVAL);
        }
    }
    let status = child.try_wait()?;
    if has_session {
        let mut watched = watched();
        watched.retain(|process| *process != child.id());
        end_orphans(&watched, start);
    }
    Ok(status)
}

/// Ends the processes that this one has inherited from a child, and those that it inherits from them.
fn end_orphans(watched: &[u32], start: Instant) {
    // In a process without children, this is all.
    while has_children_to_wait_for(libc::P_ALL, 0).is_some() {
        let orphans: Vec<u32> = children().into_iter().filter(|process| is_orphan(*process, watched)).collect();
        if orphans.is_empty() || start.elapsed() > KILL_LIMIT {
            return;
        }
        for process in orphans.into_iter().filter_map(|process| libc::pid_t::try_from(process).ok()) {
            // SAFETY: the process is a child, so its ID is of no other process.
            unsafe { libc::kill(process, libc::SIGKILL) };
            // SAFETY: as above; the status is not asked for.
            unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) };
        }
        std::thread::sleep(KILL_INTERVAL);
    }
}

/// Is this child an orphan of a watched one? It is in another session than the children without one of their own.
fn is_orphan(process: u32, watched: &[u32]) -> bool {
    let is_known = watched.contains(&process) || STRANGERS.get().is_some_and(|known| known.contains(&process));
    // The session is the sixth field.
    !is_known && stat(process, 3).is_some_and(|session| stat(std::process::id(), 3) != Some(session))
}

/// The children of this process.
fn children() -> Vec<u32> {
    let this = i64::from(std::process::id());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // The parent is the fourth field.
    processes.filter(|process| stat(*process, 1) == Some(this)).collect()
}

/// A field of a process's `stat`, counted from the one after its name, the state.
fn stat(process: u32, field: usize) -> Option<i64> {
    // The name of the program, in parentheses, may contain anything.
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ")?.1.split(' ').nth(field)?.parse().ok()
}

/// Has one of these children ended? `None` if there are none.
fn has_children_to_wait_for(kind: libc::idtype_t, id: u32) -> Option<bool> {
    // SAFETY: zeros are a valid value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the call fills the structure, and with WNOWAIT changes nothing.
    let result = unsafe { libc::waitid(kind, id, &raw mut info, options) };
    // SAFETY: the call has filled the structure, or it is zero.
    (result == 0).then(|| unsafe { info.si_pid() } != 0)
}

/// Kills the process group that this child leads. The child has not been waited for, so the ID is of no other group.
fn kill_group(leader: u32) {
    if let Ok(leader) = libc::pid_t::try_from(leader) {
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

fn watched() -> MutexGuard<'static, Vec<u32>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}
