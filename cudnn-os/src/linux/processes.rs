//! Inspects other processes through `/proc`.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::files::path_from_bytes;
use super::pages;

/// The largest process ID.
pub const MAX_ID: i64 = 1 << 22;

/// Returns an error, because Linux lists the libraries of a process in `/proc/PID/maps`.
///
/// # Errors
/// Always returns an error.
pub fn libraries_of(_process: u32) -> Result<Vec<PathBuf>> {
    Err(Error::new(ErrorKind::Unsupported, "Linux does not list the libraries of a process"))
}

/// Returns `None`, because a file can be replaced by renaming while programs use it.
pub fn users_of(_file: &Path) -> Option<Vec<String>> {
    None
}

/// Returns the executable file of a process.
pub fn program_of(process: u32) -> Option<PathBuf> {
    pages::program(process).ok()
}

/// Returns the value of an environment variable at the start of a process, or an empty string if it was unset. Returns
/// `None` if the environment cannot be read.
pub fn variable_of(process: u32, name: &str) -> Option<OsString> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |variable: &[u8]| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_owned());
    let value = environment.split(|byte| *byte == 0).find_map(value);
    Some(path_from_bytes(&value.unwrap_or_default()).into_os_string())
}

/// Returns an empty list, because parent processes are inspected only on Windows.
pub fn names_of_parents() -> Vec<String> {
    Vec::new()
}

/// Returns whether a child of this process has exited. Its ID stays valid until the child is reaped.
pub(super) fn has_ended(child: u32) -> bool {
    has_child_ended(child).unwrap_or(true)
}

/// Returns whether this is the ID of an unreaped child of this process.
pub(super) fn is_child(id: u32) -> bool {
    has_child_ended(id).is_some()
}

/// Returns whether a process has exited, or `None` if it is not a child of this process.
fn has_child_ended(process: u32) -> Option<bool> {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the output pointer is valid, and WNOWAIT leaves the child unreaped.
    let result = unsafe { libc::waitid(libc::P_PID, process, &raw mut info, options) };
    // SAFETY: the structure is either filled by the call or zero, and both are valid.
    (result == 0).then(|| unsafe { info.si_pid() } != 0)
}

/// Returns a descriptor that becomes readable when a process exits. Fails before Linux 5.3.
pub(super) fn open_process(process: u32) -> Result<OwnedFd> {
    // SAFETY: the arguments are plain integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    let descriptor = i32::try_from(descriptor).map_err(Error::other)?;
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call returned an open descriptor, and this value becomes the only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Returns a field of `/proc/PID/stat`. Field 0 is the state, which follows the name of the program.
pub(super) fn stat(process: u32, field: usize) -> Option<i64> {
    // The program name is in parentheses and may contain any characters.
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ")?.1.split(' ').nth(field)?.parse().ok()
}
