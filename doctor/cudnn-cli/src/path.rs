//! Programs on `PATH`.

use std::path::PathBuf;

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
