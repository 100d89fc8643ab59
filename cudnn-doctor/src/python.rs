//! The Python that a command names or runs, its environment, and its pip.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, Command};
use cudnn_probe::{Origin, Search, environment_of};

use crate::platform::python_in;
use crate::python_shim::{self, Surroundings};

/// An interpreter, and the environment whose packages it imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    /// The root of its environment.
    pub(crate) root: PathBuf,
    /// The environment is a virtual one.
    pub(crate) is_virtual: bool,
}

impl Python {
    /// The interpreter that the user named, or named the environment of; else that of the first environment in which the
    /// search looks for cuDNN.
    pub(crate) fn find(named: Option<&Path>, search: &Search) -> Option<Python> {
        let program = if let Some(named) = named {
            let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
            let program = if named.is_dir() { python_in(&named) } else { named };
            started_by_shim(&program).unwrap_or(program)
        } else {
            let environments = search.environments();
            let mut programs = environments.iter().filter_map(Origin::root).map(python_in);
            programs.find(|program| program.is_file())?
        };
        Python::of(program)
    }

    /// The interpreter with this path.
    pub(crate) fn of(program: PathBuf) -> Option<Python> {
        // A program that is not there still has a name.
        let above_bin = || Some((program.parent()?.parent().unwrap_or(&program).to_owned(), false));
        let (root, is_virtual) = environment_of(&program).or_else(above_bin)?;
        Some(Python { program, root, is_virtual })
    }

    /// pip with these arguments, for this interpreter.
    pub(crate) fn pip(&self, action: &str, arguments: &[&str]) -> Command {
        let arguments = || arguments.iter().map(|argument| (*argument).to_owned());
        let real = |program: &Path| cudnn_probe::canonicalize(program).ok();
        // `/usr` can have several Pythons.
        let is_main = real(&python_in(&self.root)) == real(&self.program);
        let command = if is_main { packages::pip(Some(&self.root), action, arguments()) } else { None };
        command.unwrap_or_else(|| packages::pip_by(&self.program, &self.root, action, arguments()))
    }
}

/// The Python that a script of pyenv or asdf would start.
fn started_by_shim(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(program.parent()?.to_owned()).chain(std::env::split_paths(&path));
    let path: OsString = std::env::join_paths(dirs).ok()?;
    let variable = |name: &str| if name == "PATH" { Some(path.clone()) } else { std::env::var_os(name) };
    let shim = python_shim::find(&Surroundings { variable: &variable, working_dir: std::env::current_dir().ok() })?;
    let bin = shim.bin.filter(|_| shim.file == program)?;
    Some(bin.join("python3"))
}
