//! Starts child processes, and replaces this process with a program.

use std::fs::File;
use std::io::{Error, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child as Started, Command, ExitStatus};
use std::time::Instant;

use super::inherited::{restore, was_closed};
use super::keeper::{INTERVAL, KILL_LIMIT, Keeper, signal_group};
use super::processes::{has_ended, stat};
use super::watch::watch;

/// Prepares this process for starting children. Restores the default action of SIGCHLD, because exit statuses are
/// unavailable if a parent ignored it, and turns exceeded file size limits into errors. Call this before the process
/// starts a second thread.
pub fn prepare() {
    // Programs that this process starts would inherit SIG_IGN, but no handler.
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the process is single-threaded, has not installed handlers for these signals, and the new handler is
    // empty.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        // A parent may ignore this signal for all programs that it starts, as Python does.
        if libc::signal(libc::SIGXFSZ, handler) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Checks whether this process was started with a standard output. std replaces a closed one by /dev/null.
///
/// # Errors
/// Returns the error of writing to a closed file.
pub fn check_output() -> Result<()> {
    if was_closed(libc::STDOUT_FILENO) { Err(Error::from_raw_os_error(libc::EBADF)) } else { Ok(()) }
}

/// Returns whether this process was started with a standard input. std opens /dev/null in place of a closed one.
pub fn has_input() -> bool {
    !was_closed(libc::STDIN_FILENO)
}

/// Terminates this process together with the parent. Otherwise, it would run forever if a library hangs.
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

/// Shields the child of this command from Ctrl-C, so that this process decides how to continue.
pub fn keep_from_interruption(command: &mut Command) {
    command.process_group(0);
}

/// Leaves this file open in the child of this command. A lock on the file then lasts until both processes have exited.
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

/// Terminates a child that was started after [`keep_from_interruption`], with all processes that it started. Processes
/// that ignore SIGTERM are killed.
pub fn end_group(child: &mut Started) -> Result<ExitStatus> {
    let start = Instant::now();
    signal_group(child.id(), libc::SIGTERM);
    while !has_ended(child.id()) && start.elapsed() < KILL_LIMIT {
        std::thread::sleep(INTERVAL);
    }
    signal_group(child.id(), libc::SIGKILL);
    child.wait()
}

/// Replaces this process with the program of the command, which inherits the same as this process. Returns only after a
/// failure. Another process calls `then` when the program has exited.
pub fn become_program(command: &mut Command, then: Option<&dyn Fn()>) -> Error {
    let watcher = then.and_then(|then| watch(then).ok());
    // SAFETY: the function makes system calls that are allowed here. std resets SIGPIPE before it calls the function.
    let error = unsafe { command.pre_exec(restore) }.exec();
    if let Some(mut watcher) = watcher {
        let _ = watcher.write_all(b"!");
    }
    error
}

/// Returns the signal that terminated a process.
pub fn crash_number(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Describes a failure as a phrase that follows the name of the process.
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

/// A child process. A child with a session has no terminal and exits together with all processes that it started.
pub struct Child(Kind);

enum Kind {
    WithoutSession(Started),
    WithSession(Keeper),
}

impl Child {
    /// Starts the command, and closes this process's copies of the child's descriptors.
    pub fn start(mut command: Command, has_session: bool) -> Result<Child> {
        let kind = if has_session {
            Kind::WithSession(Keeper::start(command)?)
        } else {
            Kind::WithoutSession(command.spawn()?)
        };
        Ok(Child(kind))
    }

    /// Returns whether the child has exited, and with a session also all processes that it started.
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Kind::WithoutSession(child) => has_ended(child.id()),
            Kind::WithSession(keeper) => keeper.has_ended(),
        }
    }

    /// Terminates the child, and with a session also all processes that it started. Returns the exit status, or `None`
    /// if the process survives.
    pub fn end(&mut self) -> Result<Option<ExitStatus>> {
        match &mut self.0 {
            Kind::WithoutSession(child) => end(child),
            Kind::WithSession(keeper) => Ok(keeper.end()),
        }
    }

    /// Returns the number of bytes read and the number of page faults that read from disk, if the kernel reports them.
    pub fn activity(&self) -> Option<(u64, u64)> {
        let process = match &self.0 {
            Kind::WithoutSession(child) => child.id(),
            Kind::WithSession(keeper) => keeper.child(),
        };
        // Major page faults are field 12 of `stat`.
        let faults = stat(process, 9)?.try_into().ok()?;
        let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let read = io.lines().filter(|line| line.starts_with("rchar: ") || line.starts_with("read_bytes: "));
        let read = read.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok()).sum();
        Some((read, faults))
    }
}

fn end(child: &mut Started) -> Result<Option<ExitStatus>> {
    if !has_ended(child.id()) {
        child.kill()?;
        let start = Instant::now();
        while !has_ended(child.id()) && start.elapsed() < KILL_LIMIT {
            std::thread::sleep(INTERVAL);
        }
    }
    child.try_wait()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Read;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn only_the_child_keeps_descriptors_open() {
        for has_session in [false, true] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"text").unwrap();
            let (stdin, mut to_child) = std::io::pipe().unwrap();
            let (mut from_child, stdout) = std::io::pipe().unwrap();
            let mut command = Command::new("/bin/sh");
            let script = format!("cat /dev/fd/{}; exec >&-; read -r line; exit 3", file.as_raw_fd());
            command.args(["-c", &script]).stdin(stdin).stdout(stdout);
            keep_open(&mut command, &file);
            let mut child = Child::start(command, has_session).unwrap();
            let mut text = String::new();
            from_child.read_to_string(&mut text).unwrap();
            assert_eq!((text.as_str(), child.has_ended()), ("text", false));
            to_child.write_all(b"\n").unwrap();
            while !child.has_ended() {
                std::thread::sleep(INTERVAL);
            }
            assert_eq!(child.end().unwrap().and_then(|status| status.code()), Some(3));
        }
    }
}
