//! Starts a process that waits until the program that replaces this process has exited.

use std::fs::File;
use std::io::{Error, PipeReader, PipeWriter, Read, Result};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::descriptors::close_all_from;
use super::processes::open_process;

/// Makes another process call `then` after another program has replaced this process and has ended. The watcher is not
/// a child of this process, because programs may wait for all of their children. Writing to the returned pipe cancels
/// the watcher. Fails if this process adopts orphans, because the watcher would then become its child.
pub(super) fn watch(then: &dyn Fn()) -> Result<PipeWriter> {
    if adopts_orphans() {
        return Err(Error::other("this process adopts orphans"));
    }
    // Both ends are closed when the program replaces this process.
    let (reader, writer) = std::io::pipe()?;
    let program = open_process(std::process::id())?;
    // SAFETY: the process is single-threaded, and the child only forks and exits.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            // SAFETY: the child is single-threaded, and the grandchild exits without returning to code of this process.
            unsafe {
                if libc::fork() == 0 {
                    drop(writer);
                    if has_ended(&reader, &program) {
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

/// Returns whether orphaned descendants become children of this process, as for the first process of a container.
fn adopts_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: the call writes one integer.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    std::process::id() == 1 || is_subreaper != 0
}

/// Waits until a program has replaced the process and has ended.
fn has_ended(called_off: &PipeReader, program: &OwnedFd) -> bool {
    let [mut called_off, program] = leave_pipes([called_off.as_raw_fd(), program.as_raw_fd()]);
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

/// Closes all descriptors except for these two, which replace standard input and output, and standard error. Otherwise,
/// processes at the other ends of pipes would wait for this process.
fn leave_pipes(kept: [RawFd; 2]) -> [ManuallyDrop<File>; 2] {
    let standard = [libc::STDIN_FILENO, libc::STDOUT_FILENO];
    for (kept, standard) in kept.into_iter().zip(standard) {
        // SAFETY: both descriptors are open, and nothing owns the standard ones. The others are not standard, because std
        // opens the standard ones first.
        unsafe { libc::dup2(kept, standard) };
    }
    close_all_from(3);
    // SAFETY: both descriptors are open, and `ManuallyDrop` never closes them.
    standard.map(|standard| ManuallyDrop::new(unsafe { File::from_raw_fd(standard) }))
}
