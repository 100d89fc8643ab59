//! Programs on `PATH`.

use std::path::PathBuf;
use std::str::SplitWhitespace;

use cudnn_probe::facts::{self, is_executable};

/// Returns the absolute directories on `PATH`.
pub fn path_dirs() -> Vec<PathBuf> {
    let path = facts::variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect()
}

/// Returns whether a shell would find a program with this name.
pub fn is_on_path(program: &str) -> bool {
    let program = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    path_dirs().iter().any(|dir| is_executable(&dir.join(&program)))
}

/// Returns the words in the first line of a script, from the interpreter on. `None` for other files.
#[must_use]
pub fn interpreter_words(script: &[u8]) -> Option<SplitWhitespace<'_>> {
    let line = script.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(str::from_utf8(line).ok()?.split_whitespace())
}
