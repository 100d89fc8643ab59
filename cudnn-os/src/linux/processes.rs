//! Inspects other processes through `/proc`.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::files::path_from_bytes;
use super::pages;

/// The largest process ID.
pub const MAX_ID: i64 = 1 << 22;

/// Returns an error, because Linux does not list the libraries of a process. Use `/proc/PID/maps` instead.
///
/// # Errors
/// Always returns an error.
pub fn libraries_of(_process: u32) -> Result<Vec<PathBuf>> {
    Err(Error::new(ErrorKind::Unsupported, "Linux does not list the libraries of a process"))
}

/// Returns `None`, because renaming can replace a file even while programs use it.
pub fn users_of(_file: &Path) -> Option<Vec<String>> {
    None
}

/// Returns the executable file of a process.
pub fn program_of(process: u32) -> Option<PathBuf> {
    pages::program(process).ok()
}

/// Returns the value that an environment variable had when a process started, or an empty string if it was unset.
/// Returns `None` if the environment cannot be read.
pub fn variable_of(process: u32, name: &str) -> Option<OsString> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |variable: &[u8]| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_owned());
    let value = environment.split(|byte| *byte == 0).find_map(value);
    Some(path_from_bytes(&value.unwrap_or_default()).into_os_string())
}

/// Returns an empty list. Parent processes are inspected only on Windows.
pub fn names_of_parents() -> Vec<String> {
    Vec::new()
}
