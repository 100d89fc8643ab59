//! Other processes, as `/proc` shows them.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use super::files::path_from_bytes;
use super::pages;

/// The largest ID of a process.
pub const MAX_ID: i64 = 1 << 22;

/// Returns an error: Linux has no list of the libraries that a process has loaded. See `/proc/PID/maps`.
///
/// # Errors
/// Always.
pub fn libraries_of(_process: u32) -> Result<Vec<PathBuf>> {
    Err(Error::new(ErrorKind::Unsupported, "the kernel keeps no list of a process's libraries"))
}

/// Returns `None`: a rename replaces files that programs use, too.
pub fn users_of(_file: &Path) -> Option<Vec<String>> {
    None
}

/// Returns the file of a process's program.
pub fn program_of(process: u32) -> Option<PathBuf> {
    pages::program(process).ok()
}

/// Returns the value that an environment variable had when a process started, empty if it had none. `None` if that cannot be
/// read.
pub fn variable_of(process: u32, name: &str) -> Option<OsString> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |variable: &[u8]| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_owned());
    let value = environment.split(|byte| *byte == 0).find_map(value);
    Some(path_from_bytes(&value.unwrap_or_default()).into_os_string())
}

/// Returns an empty list: the names of the programs that started this one are not read here.
pub fn names_of_parents() -> Vec<String> {
    Vec::new()
}
