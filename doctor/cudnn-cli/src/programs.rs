//! The project's commands as a user must type them: a name if it is on `PATH`, otherwise a path.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use cudnn_os::program::{executable, launcher};
use cudnn_probe::facts::{self, PathFacts};

use crate::command::Command;
use crate::path::path_dirs;

const DOCTOR: &str = "cudnn-doctor";
const LAB: &str = "cudnn-lab";

/// Returns the doctor as a shell word.
pub fn doctor() -> String {
    doctor_command([""; 0]).to_string()
}

/// Returns the doctor as a command with these arguments.
pub fn doctor_command<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Command {
    command(DOCTOR).and(arguments)
}

/// Returns the lab as a shell word.
pub fn lab() -> String {
    lab_command([""; 0]).to_string()
}

/// Returns the lab as a command with these arguments.
pub fn lab_command<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Command {
    command(LAB).and(arguments)
}

static OWN_NAME: OnceLock<String> = OnceLock::new();

/// Sets the name of this process's program, regardless of its file name. The first name counts.
pub fn set_own_name(name: &str) {
    let _ = OWN_NAME.set(name.to_owned());
}

/// Returns the file of this process's program.
///
/// # Errors
/// Returns an error if the system cannot provide the path.
pub fn own_file() -> std::io::Result<PathBuf> {
    facts::ask("doctor", "", executable)
}

/// Returns the program with this name: this process's, or the one installed next to it.
fn command(name: &'static str) -> Command {
    let by_name = || Command::new(name, [""; 0]);
    let own_name = OWN_NAME.get().map(String::as_str);
    let (Some(own_name), Ok(own)) = (own_name, own_file()) else { return by_name() };
    let file_name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = if own_name == name { own } else { own.with_file_name(&file_name) };
    if own_name != name && !program.leads_to_file() {
        return by_name();
    }
    let words: Vec<OsString> = facts::ask("launcher of doctor", "", launcher);
    let mut words = words.into_iter();
    if let Some(loader) = words.next() {
        return Command::new(loader, words.chain([program.into_os_string()]));
    }
    let first = path_dirs().into_iter().map(|dir| dir.join(&file_name)).find(|file| file.leads_to_file());
    let real = |file: PathBuf| cudnn_probe::canonicalize(file).ok();
    let is_this = first.and_then(real).is_some_and(|file| Some(file) == real(program.clone()));
    if is_this { by_name() } else { Command::new(program, [""; 0]) }
}
