//! Recognizes errors that are caused by limits of the system, and not by a particular file or program.

use std::io::Error;

use super::memory::limit_of;

/// Returns whether a program could not be started because of a limit of the system or shell.
pub fn is_lack_of_resources(error: &Error) -> bool {
    let limits = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

/// Returns whether a file could not be opened because too many files are open.
pub fn is_lack_of_files(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns the limit of open files if the process has reached it.
pub fn limit_of_open_files(error: &Error) -> Option<u64> {
    (error.raw_os_error() == Some(libc::EMFILE)).then(|| limit_of(libc::RLIMIT_NOFILE).unwrap_or(u64::MAX))
}

/// Returns whether the reader has closed the pipe, which only `BrokenPipe` indicates.
pub fn is_closed_pipe(error: &Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}
