//! A process that waits for the end of the program that this process becomes.

use std::io::{Error, PipeReader, PipeWriter, Read, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Has another process call `then` when this process has ended, once it has become another program. It is no child of this
/// process: a program may wait for all of its children. What is written into the returned pipe calls it off.
///
/// # Errors
/// The system refuses, or this process adopts orphans: the other process would become its child all the same.
pub(super) fn watch(then: &dyn Fn()) -> Result<PipeWriter> {
    if adopts_orphans() {
        return Err(Error::other("this process adopts orphans"));
    }
    // Both are closed when this process becomes a program.
    let (reader, writer) = std::io::pipe()?;
    let program = this_process()?;
    // SAFETY: the process has one thread. The child only forks and ends.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            // SAFETY: as above; the grandchild ends without returning into code of this process.
            unsafe {
                if libc::fork() == 0 {
                    drop(writer);
                    if has_ended(reader, &program) {
                        then();
                    }
                }
                libc::_exit(0)
            }
        }
        child => {
            // SAFETY: the status may be null.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            Ok(writer)
        }
    }
}

/// Does the kernel make this process the parent of processes below it that have lost theirs? So it does with the first
/// process of a container.
fn adopts_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: the call writes one integer.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    std::process::id() == 1 || is_subreaper != 0
}

/// A descriptor of this process, which can be read from when it has ended.
fn this_process() -> Result<OwnedFd> {
    // SAFETY: the call takes numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let descriptor = i32::try_from(descriptor).map_err(Error::other)?;
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has returned this open descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits until the process has become a program, and that has ended.
fn has_ended(mut called_off: PipeReader, program: &OwnedFd) -> bool {
    leave_pipes();
    if !matches!(called_off.read(&mut [0]), Ok(0)) {
        return false;
    }
    let mut wait = libc::pollfd { fd: program.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the structure is one, and a signal ends the wait early.
    while unsafe { libc::poll(&raw mut wait, 1, -1) } < 0 {
        if Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
    true
}

/// Closes the program's standard input and output, at whose other ends processes may wait for the program to close them.
fn leave_pipes() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
            // SAFETY: both descriptors are this process's, and nothing owns the standard ones.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}
