//! Programs on `PATH`.

use std::path::{Path, PathBuf};
use std::str::SplitWhitespace;

use cudnn_probe::facts::{self, is_executable};

/// Returns the absolute directories on `PATH`.
pub fn path_dirs() -> Vec<PathBuf> {
    let path = facts::variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect()
}

/// Returns the program with this name that a shell would find.
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    path_dirs().into_iter().map(|dir| dir.join(&name)).find(|file| is_executable(file))
}

/// Returns whether a shell would find a program with this name.
pub fn is_on_path(program: &str) -> bool {
    program_on_path(program).is_some()
}

/// Returns the interpreter that the first line of a script names.
pub fn interpreter_of(script: &Path) -> Option<PathBuf> {
    /// Linux reads no more.
    const MAX_LEN: u64 = 256;
    let start = facts::read_start(script, MAX_LEN).ok()?;
    Some(interpreter_words(&start)?.next()?.into())
}

/// Returns the words of a script's first line, beginning with the interpreter. `None` for other files.
pub fn interpreter_words(script: &[u8]) -> Option<SplitWhitespace<'_>> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(str::from_utf8(line).ok()?.split_whitespace())
}
