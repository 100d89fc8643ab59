//! Starts child processes, and terminates everything that they leave running.
//!
//! A child with a separate session leaves no processes behind. This process adopts descendants that left the session,
//! and ends them after the child.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child as Started, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::watch::watch;

/// Prepares this process for starting children. It restores the default action of SIGCHLD, because a parent that
/// ignored the signal would make exit statuses unavailable, and turns exceeded file size limits into errors. Call this
/// before the process starts a second thread.
pub fn prepare() {
    // Use a handler rather than SIG_IGN, which programs started by this process would inherit.
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the process is single-threaded, has not installed handlers for these signals, and the new handler is
    // empty.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        // A parent may ignore this signal for all programs it starts, as Python does.
        if libc::signal(libc::SIGXFSZ, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Terminates this process together with the parent. Without this, the process would run forever if a library hangs.
pub fn end_with_parent() {
    // SAFETY: the call only changes a setting of this process.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // The call fails only for invalid signal numbers.
    debug_assert_eq!(result, 0);
}

/// Makes the child of this command terminate together with this process.
pub fn end_child_with_this_process(command: &mut Command) {
    // SAFETY: the closure makes one system call that is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            end_with_parent();
            Ok(())
        })
    };
}

/// Shields the child that this command starts from Ctrl-C. The child can finish its work, and this process decides how
/// to continue.
pub fn keep_from_interruption(command: &mut Command) {
    command.process_group(0);
}

/// Leaves this file open in the child of this command. A lock on the file then lasts until both processes have ended.
pub fn keep_open(command: &mut Command, file: &File) {
    let number = file.as_raw_fd();
    // SAFETY: the closure makes one system call that is allowed between fork and exec, on a descriptor that the caller
    // may have closed in the meantime, which makes the call fail.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(number, libc::F_SETFD, 0);
            Ok(())
        })
    };
}

/// Terminates a child that was started after [`keep_from_interruption`], with the processes that it started. Processes
/// that ignore SIGTERM are killed.
///
/// # Errors
/// Returns an error if the system call fails.
pub fn end_group(child: &mut Started) -> Result<ExitStatus> {
    let start = Instant::now();
    signal_group(child.id(), libc::SIGTERM);
    while !has_ended(child) && start.elapsed() < KILL_LIMIT {
        std::thread::sleep(KILL_INTERVAL);
    }
    signal_group(child.id(), libc::SIGKILL);
    child.wait()
}

/// Replaces this process with the program of the command. Returns only if that fails. Another process calls `then` when
/// the program has ended.
pub fn become_program(command: &mut Command, then: Option<&dyn Fn()>) -> Error {
    let watcher = then.and_then(|then| watch(then).ok());
    let error = command.exec();
    if let Some(mut watcher) = watcher {
        let _ = watcher.write_all(b"!");
    }
    error
}

/// Returns the signal that terminated a process.
#[must_use]
pub fn crash_number(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Describes a failure as a phrase to follow the name of the process.
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

/// How long to wait for killed processes to end. A process that survives longer is abandoned.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The polling interval while waiting for a killed process.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// The process IDs of the children with a session. Every child leads one session.
static WATCHED: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The children that this process had at startup. They belong to a shell that this program replaced.
static STRANGERS: OnceLock<Vec<u32>> = OnceLock::new();

/// A child process. With a session, the child runs without a terminal and terminates together with all processes that
/// it started.
pub struct Child {
    started: Started,
    has_session: bool,
}

impl Child {
    /// Starts the command.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn start(command: &mut Command, has_session: bool) -> Result<Child> {
        if !has_session {
            return Ok(Child { started: command.spawn()?, has_session });
        }
        // SAFETY: the function makes one system call that is allowed between fork and exec.
        unsafe { command.pre_exec(new_session) };
        Ok(Child { started: spawn(command)?, has_session })
    }

    /// Returns whether the child has exited. The process ID stays reserved until [`Child::end`] is called.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        has_ended(&self.started)
    }

    /// Terminates the child if it is still running, and with a session also all processes that it started. Returns the
    /// exit status, or `None` if the process survives.
    ///
    /// # Errors
    /// Returns an error if the system call fails.
    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        end(&mut self.started, self.has_session)
    }

    /// Returns the number of bytes read and the number of page faults that read from disk. Returns `None` if the kernel
    /// does not report them.
    #[must_use]
    pub fn activity(&self) -> Option<(u64, u64)> {
        let process = self.started.id();
        // Major page faults are field 12 of `stat`.
        let faults = stat(process, 9)?.try_into().ok()?;
        let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let read = io.lines().filter(|line| line.starts_with("rchar: ") || line.starts_with("read_bytes: "));
        let read = read.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum();
        Some((read, faults))
    }
}

/// Moves this process into a new session without a terminal. Called between fork and exec.
fn new_session() -> Result<()> {
    // SAFETY: the call involves no pointers.
    if unsafe { libc::setsid() } < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Starts a child with a session.
fn spawn(command: &mut Command) -> Result<Started> {
    let mut watched = watched();
    STRANGERS.get_or_init(children);
    // Make this process adopt orphaned descendants of the child. Otherwise, processes that left the session would
    // survive.
    //
    // SAFETY: the call only changes a setting of this process.
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
        signal_group(child.id(), libc::SIGKILL);
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

/// Terminates the processes that this process adopted from a child, including descendants.
fn end_orphans(watched: &[u32], start: Instant) {
    // Without children, the loop is skipped.
    while has_children_to_wait_for(libc::P_ALL, 0).is_some() {
        let orphans: Vec<u32> = children().into_iter().filter(|process| is_orphan(*process, watched)).collect();
        if orphans.is_empty() || start.elapsed() > KILL_LIMIT {
            return;
        }
        for process in orphans.into_iter().filter_map(|process| libc::pid_t::try_from(process).ok()) {
            // SAFETY: the ID is still valid, because the child is unreaped.
            unsafe { libc::kill(process, libc::SIGKILL) };
            // SAFETY: the process is an unreaped child, and the status pointer may be null.
            unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) };
        }
        std::thread::sleep(KILL_INTERVAL);
    }
}

/// Returns whether this child is an orphan of a watched child. Orphans are in a different session than children that
/// were started without one.
fn is_orphan(process: u32, watched: &[u32]) -> bool {
    let is_known = watched.contains(&process) || STRANGERS.get().is_some_and(|known| known.contains(&process));
    // The session is field 6 of `stat`.
    !is_known && stat(process, 3).is_some_and(|session| stat(std::process::id(), 3) != Some(session))
}

/// Returns the process IDs of the children of this process.
fn children() -> Vec<u32> {
    let this = i64::from(std::process::id());
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // The parent is field 4 of `stat`.
    processes.filter(|process| stat(*process, 1) == Some(this)).collect()
}

/// Returns a field of `/proc/PID/stat`. Field 0 is the state, which follows the name of the program.
fn stat(process: u32, field: usize) -> Option<i64> {
    // The program name is in parentheses and may contain any characters.
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ")?.1.split(' ').nth(field)?.parse().ok()
}

/// Returns whether one of these children has exited, or `None` without such children.
fn has_children_to_wait_for(kind: libc::idtype_t, id: u32) -> Option<bool> {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the output pointer is valid, and WNOWAIT leaves the child unreaped.
    let result = unsafe { libc::waitid(kind, id, &raw mut info, options) };
    // SAFETY: the structure is either filled by the call or zero, and both are valid.
    (result == 0).then(|| unsafe { info.si_pid() } != 0)
}

/// Sends a signal to the process group that this child leads. The ID is still valid, because the child is unreaped.
fn signal_group(leader: u32, signal: libc::c_int) {
    if let Ok(leader) = libc::pid_t::try_from(leader) {
        // SAFETY: the arguments are plain integers.
        unsafe { libc::kill(-leader, signal) };
    }
}

fn watched() -> MutexGuard<'static, Vec<u32>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}
