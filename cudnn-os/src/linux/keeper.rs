//! Runs a child process, and terminates it together with all processes that it started.
//!
//! A separate process, the keeper, starts the child and adopts orphaned descendants. When the child has exited, or when
//! this process closes the keeper's socket or dies, the keeper kills the child's process group, and then all of its own
//! children. These can only be descendants of the child, so other processes, such as daemons of the script that started
//! this program, are never signalled or reaped.
//!
//! The keeper is the process that `Command::spawn` forks. It forks again, and its child becomes the program. `spawn`
//! prepares everything before the fork, so that the keeper needs neither the memory allocator nor a lock that another
//! thread of this process held during the fork.
//!
//! These descendants escape: processes that this user may not signal, processes that the kernel cannot end within
//! [`KILL_LIMIT`], and all except the child if somebody kills the keeper. Processes that a service starts at the
//! child's request are not descendants.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use super::descriptors::close_all_from;
use super::processes::{MAX_ID, has_ended, is_child, open_process};
use super::signals::with_all_signals_blocked;

/// The time to wait for killed processes. A process that survives longer is abandoned.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(2);

/// The polling interval while waiting for a process.
pub(super) const INTERVAL: Duration = Duration::from_millis(2);

/// A keeper with its child, which is terminated if the value is dropped.
pub(super) struct Keeper {
    process: Child,
    child: u32,
    socket: UnixStream,
}

impl Keeper {
    pub(super) fn start(mut command: Command) -> Result<Keeper> {
        let (mut socket, theirs) = UnixStream::pair()?;
        let number = theirs.as_raw_fd();
        // SAFETY: `split` and the keeper only make system calls that are allowed between fork and exec. They allocate
        // no memory and acquire no locks, and the descriptor is open until the command has started.
        unsafe { command.pre_exec(move || split(number)) };
        let mut process = command.spawn()?;
        drop(theirs);
        // The keeper has already sent the ID, because `spawn` waits until the keeper has closed its other descriptors.
        let child = receive(&mut socket).inspect_err(|_| _ = process.wait())?;
        Ok(Keeper { process, child: child.cast_unsigned(), socket })
    }

    /// Returns the process ID of the child. It may be invalid after [`Keeper::has_ended`] has returned `true`.
    pub(super) fn child(&self) -> u32 {
        self.child
    }

    /// Returns whether the child and its descendants have exited.
    pub(super) fn has_ended(&self) -> bool {
        has_ended(self.process.id())
    }

    /// Terminates the child and its descendants. Returns the child's exit status, or `None` if it survives.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        // Somebody may have stopped the keeper.
        signal_child(self.process.id(), libc::SIGCONT);
        // Both calls fail only for invalid arguments.
        let _ = self.socket.shutdown(Shutdown::Write);
        let _ = self.socket.set_read_timeout(Some(2 * KILL_LIMIT));
        let status = receive(&mut self.socket);
        // Unless the time is up, the keeper has sent the status or given up, and is exiting.
        if !status.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            let _ = self.process.wait();
        }
        status.ok().map(ExitStatus::from_raw)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A process that is just being started may have a copy of this end of the socket.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Runs between fork and exec. This process becomes the keeper, and returns only in its child.
fn split(socket: RawFd) -> Result<()> {
    // The keeper must not receive the signals of a terminal.
    new_session()?;
    // SAFETY: the calls only change settings of this process, which adopts orphans and survives its parent. They fail
    // only in sandboxes that do not know them.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
    }
    // SAFETY: this process has a single thread, and the child only makes system calls until it becomes the program.
    match u32::try_from(unsafe { libc::fork() }) {
        Err(_) => Err(Error::last_os_error()),
        Ok(0) => {
            // SAFETY: the call only changes a setting of this process: it ends if somebody kills the keeper.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            new_session()
        }
        Ok(child) => with_all_signals_blocked(|| keep(child, socket)),
    }
}

fn new_session() -> Result<()> {
    // SAFETY: the call involves no pointers.
    if unsafe { libc::setsid() } < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

const SOCKET: RawFd = 0;

fn keep(child: u32, socket: RawFd) -> ! {
    // SAFETY: both descriptors are open, and this process uses no standard input.
    unsafe { libc::dup2(socket, SOCKET) };
    send(child.cast_signed());
    close_all_from(SOCKET + 1);
    wait(child);
    signal_group(child, libc::SIGKILL);
    let _ = end_children(child).map(send);
    // SAFETY: the call skips the exit handlers, which belong to the process that this one is a copy of.
    unsafe { libc::_exit(0) }
}

/// Waits until the child has exited or the parent has closed the socket, through which it sends nothing.
fn wait(child: u32) {
    let process = open_process(child).ok();
    let (process, timeout) = match &process {
        Some(process) => (process.as_raw_fd(), -1),
        // Before Linux 5.3, poll the child.
        None => (-1, INTERVAL.as_millis() as libc::c_int),
    };
    let mut sources = [SOCKET, process].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    while !has_ended(child) && sources.first().is_some_and(|socket| socket.revents == 0) {
        // SAFETY: the pointer and the length belong to this array.
        unsafe { libc::poll(sources.as_mut_ptr(), sources.len() as libc::nfds_t, timeout) };
    }
}

/// Kills and reaps all children of this process. Returns the child's raw exit status if it has ended.
fn end_children(child: u32) -> Option<i32> {
    let start = Instant::now();
    let mut status = None;
    while start.elapsed() < KILL_LIMIT {
        let mut raw = 0;
        // SAFETY: the output pointer is valid.
        match u32::try_from(unsafe { libc::waitpid(-1, &raw mut raw, libc::WNOHANG) }) {
            Err(_) => break,
            Ok(0) => {
                kill_children(start);
                std::thread::sleep(INTERVAL);
            }
            Ok(ended) if ended == child => status = Some(raw),
            Ok(_) => {}
        }
    }
    status
}

fn kill_children(start: Instant) {
    let mut list = [0; 4096];
    let length = File::open("/proc/thread-self/children").and_then(|mut file| file.read(&mut list)).unwrap_or(0);
    let words = list.get(..length).unwrap_or_default().split(|byte| *byte == b' ');
    let listed = words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    if kill_children_among(listed) > 0 {
        return;
    }
    // The list is missing, or belongs to another PID namespace. Children usually have larger IDs than this process.
    let (this, last) = (std::process::id(), MAX_ID as u32);
    let all = (this..=last).chain(1..this);
    kill_children_among(all.take_while(|_| start.elapsed() < KILL_LIMIT));
}

/// Kills the children of this process with these IDs, and returns their number.
fn kill_children_among(ids: impl Iterator<Item = u32>) -> usize {
    ids.filter(|id| signal_child(*id, libc::SIGKILL)).count()
}

/// Sends a signal to a process, if it is a child of this process. Returns whether it is one.
fn signal_child(id: u32, signal: libc::c_int) -> bool {
    let is_child = is_child(id);
    if is_child {
        // SAFETY: the ID is valid, because only this process reaps its children.
        unsafe { libc::kill(id.cast_signed(), signal) };
    }
    is_child
}

/// Sends a signal to the process group of this unreaped child.
pub(super) fn signal_group(leader: u32, signal: libc::c_int) {
    if let Ok(leader) = libc::pid_t::try_from(leader) {
        // SAFETY: the arguments are plain integers.
        unsafe { libc::kill(-leader, signal) };
    }
}

/// Sends a number to the parent, unless it has died.
fn send(number: i32) {
    let bytes = number.to_ne_bytes();
    // SAFETY: the pointer and the length belong to this array.
    unsafe { libc::send(SOCKET, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
}

fn receive(socket: &mut UnixStream) -> Result<i32> {
    let mut bytes = [0; size_of::<i32>()];
    socket.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::{BufRead, BufReader, PipeReader, Write};

    use super::*;

    /// Starts a process in a new session, which prints the process ID and outlives the shell.
    const DAEMON: &str = "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' &";

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    }

    /// Returns a keeper, and a pipe that ends with its child.
    fn sleeping() -> (Keeper, PipeReader) {
        let (from_child, stdout) = std::io::pipe().unwrap();
        let mut command = sleep();
        command.stdout(stdout);
        (Keeper::start(command).unwrap(), from_child)
    }

    fn is_running(process: u32) -> bool {
        // SAFETY: signal 0 only checks that the process exists.
        unsafe { libc::kill(process.cast_signed(), 0) == 0 }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn a_child_ends_with_all_its_descendants() {
        for (input, expected) in [(Some("\n"), (Some(3), None)), (None, (None, Some(libc::SIGKILL)))] {
            let (stdin, mut to_child) = std::io::pipe().unwrap();
            let (mut from_child, stdout) = std::io::pipe().unwrap();
            let mut command = shell(&format!("{DAEMON} read -r line; exit 3"));
            command.stdin(stdin).stdout(stdout);
            let mut keeper = Keeper::start(command).unwrap();
            let mut line = String::new();
            BufReader::new(&mut from_child).read_line(&mut line).unwrap();
            let daemon = line.trim().parse().unwrap();
            assert!(is_running(daemon) && !keeper.has_ended());
            // The shell exits if it has input.
            if let Some(input) = input {
                to_child.write_all(input.as_bytes()).unwrap();
                while !keeper.has_ended() {
                    std::thread::sleep(INTERVAL);
                }
            }
            let status = keeper.end().unwrap();
            assert_eq!((status.code(), status.signal()), expected);
            assert!(!is_running(daemon));
        }
        let error = Keeper::start(Command::new("/nowhere/program")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn orphans_of_others_survive() {
        let mut keeper = Keeper::start(sleep()).unwrap();
        let output = shell(DAEMON).output().unwrap();
        let stranger = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        keeper.end().unwrap();
        assert!(is_running(stranger));
        // SAFETY: the process belongs to this test.
        unsafe { libc::kill(stranger.cast_signed(), libc::SIGKILL) };
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn a_child_ends_with_the_value_even_if_a_second_keeper_is_running() {
        let (first, mut from_child) = sleeping();
        let (mut second, _) = sleeping();
        drop(first);
        assert_eq!(from_child.read(&mut [0]).unwrap(), 0);
        assert!(!second.has_ended());
        second.end().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn a_child_ends_if_somebody_stops_or_kills_the_keeper() {
        for (signal, expected) in [(libc::SIGSTOP, Some(libc::SIGKILL)), (libc::SIGKILL, None)] {
            let (mut keeper, mut from_child) = sleeping();
            let process = keeper.process.id();
            assert!(signal_child(process, signal));
            assert_eq!(keeper.end().and_then(|status| status.signal()), expected);
            assert_eq!(from_child.read(&mut [0]).unwrap(), 0);
            assert!(!is_running(process), "the keeper was not reaped");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri cannot start processes")]
    fn only_children_are_killed() {
        let mut child = sleep().spawn().unwrap();
        let this = std::process::id();
        assert_eq!(kill_children_among([0, 1, this, child.id(), u32::MAX].into_iter()), 1);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
