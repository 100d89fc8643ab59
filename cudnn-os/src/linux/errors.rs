//! Errors of the system that tell nothing about the file or program that they are about.

use std::io::Error;

use super::memory::limit_of;

/// Whether a limit of the system or the shell is the cause, rather than the program that was to start.
#[must_use]
pub fn is_lack_of_resources(error: &Error) -> bool {
    let limits = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

/// Whether a file could not be opened because too many are open.
#[must_use]
pub fn is_lack_of_files(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns how many files this process may have open, if it has reached that limit.
#[must_use]
pub fn limit_of_open_files(error: &Error) -> Option<u64> {
    (error.raw_os_error() == Some(libc::EMFILE)).then(|| limit_of(libc::RLIMIT_NOFILE).unwrap_or(u64::MAX))
}

/// Whether the reader of a pipe has closed it. `BrokenPipe` is the only such error.
#[must_use]
pub fn is_closed_pipe(error: &Error) -> bool {
    error.kind() == std::io::ErrorKind::BrokenPipe
}
