//! The directories that variables of the shell name, with what they contain.

use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use crate::rights::{can_write, is_root};
use cudnn_probe::Os;
use cudnn_probe::facts::is_executable;

/// The most entries of a directory that are read.
const MAX_ENTRIES: usize = 20_000;

/// An absolute path in a variable.
fn variable(name: &str) -> Option<PathBuf> {
    facts::variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The entries of a directory; none if it cannot be read.
pub(crate) fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    facts::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES).flatten().map(|entry| entry.path())
}

/// The directories on `PATH`, without relative ones.
pub(crate) fn path_dirs() -> Vec<PathBuf> {
    let path = facts::variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect()
}

/// Would a shell find a program with this name?
pub(crate) fn is_on_path(program: &str) -> bool {
    let program = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    path_dirs().iter().any(|dir| is_executable(&dir.join(&program)))
}

/// The program that a variable names, if it can be started.
pub(super) fn program_in(name: &str) -> Option<PathBuf> {
    variable(name).filter(|program| is_executable(program))
}

/// The directory of the user's packages for all Pythons: `~/.local`, or `%APPDATA%\Python`.
pub(crate) fn user_base() -> Option<PathBuf> {
    variable("PYTHONUSERBASE").or_else(|| match Os::HOST {
        Os::Windows => Some(variable("APPDATA")?.join("Python")),
        _ => Some(variable("HOME")?.join(".local")),
    })
}

/// The directory for what the doctor advises to install apart; `None` if this user can write to none.
pub(crate) fn data_dir() -> Option<PathBuf> {
    if Os::HOST == Os::Windows {
        return Some(variable("LOCALAPPDATA").unwrap_or_else(|| PathBuf::from(r"C:\ProgramData")));
    }
    let of_user = variable("HOME").filter(|home| home.leads_to_dir()).map(|home| home.join(".local/share"));
    let of_root = || (is_root() || is_on_path("sudo")).then(|| PathBuf::from("/opt"));
    of_user.filter(|dir| can_write(dir)).or_else(of_root)
}
