//! Another process, as `/proc` shows it.

use std::ffi::{OsStr, OsString};
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::{MappedLibrary, mapped_libraries};

/// The largest id that Linux gives to a process.
pub(crate) const MAX_PID: i64 = 1 << 22;

/// Whose processes can be inspected.
pub(crate) const RIGHTS_HINT: &str = "The process must be running, and you must own it or be root.";

/// The libraries that a process has loaded.
pub(crate) fn loaded_libraries(process: u32) -> Result<Vec<MappedLibrary>> {
    mapped_libraries(process)
}

/// Who keeps this file from being replaced: a rename replaces files that programs use, too.
pub(crate) fn users_of(_file: &Path) -> Option<Vec<String>> {
    None
}

/// The file of a process's program.
pub(crate) fn program_of(process: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/exe")).ok()
}

/// The value that an environment variable had when a process started, empty if it had none. `None` if that cannot be read.
pub(crate) fn variable_of(process: u32, name: &str) -> Option<OsString> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |variable: &[u8]| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_owned());
    let value = environment.split(|byte| *byte == 0).find_map(value);
    Some(OsStr::from_bytes(&value.unwrap_or_default()).to_owned())
}

/// The program that started this process: its shell is not asked for here.
pub(crate) fn names_of_parents() -> Vec<String> {
    Vec::new()
}
