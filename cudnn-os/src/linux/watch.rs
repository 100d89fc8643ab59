//! Starts a process that waits until the program that replaces this process has ended.

use std::io::{Error, PipeReader, PipeWriter, Read, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Makes another process call `then` after this process was replaced by another program and has ended. The watcher is
/// not a child of this process, because programs may wait for all of their children. Writing to the returned pipe
/// cancels the watcher.
///
/// # Errors
/// Returns an error if a system call fails or this process adopts orphans, because the watcher would then become a
/// child of it.
pub(super) fn watch(then: &dyn Fn()) -> Result<PipeWriter> {
    if adopts_orphans() {
        return Err(Error::other("this process adopts orphans"));
    }
    // Both ends are closed when this process is replaced by the program.
    let (reader, writer) = std::io::pipe()?;
    let program = this_process()?;
    // SAFETY: the process is single-threaded, and the child only forks and exits.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            // SAFETY: the child is single-threaded, and the grandchild exits without returning to code of this process.
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
            // SAFETY: the status pointer may be null.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            Ok(writer)
        }
    }
}

/// Returns whether orphaned descendants become children of this process. This is always true for the first process of a
/// container.
fn adopts_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: the call writes one integer.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    std::process::id() == 1 || is_subreaper != 0
}

/// Returns a descriptor of this process that becomes readable when the process ends.
fn this_process() -> Result<OwnedFd> {
    // SAFETY: the arguments are plain integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    let descriptor = i32::try_from(descriptor).map_err(Error::other)?;
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call returned an open descriptor, and this value becomes the only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Waits until the process was replaced by a program that has ended.
fn has_ended(mut called_off: PipeReader, program: &OwnedFd) -> bool {
    leave_pipes();
    if !matches!(called_off.read(&mut [0]), Ok(0)) {
        return false;
    }
    let mut wait = libc::pollfd { fd: program.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer refers to one valid structure. A signal may end the wait early.
    while unsafe { libc::poll(&raw mut wait, 1, -1) } < 0 {
        if Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return false;
        }
    }
    true
}

/// Closes standard input and output so that processes at the other ends do not wait for this process.
fn leave_pipes() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
            // SAFETY: both descriptors are this process's, and nothing owns the standard ones.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}
