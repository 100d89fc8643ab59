//! The Python that a command names or runs, its environment, and its pip.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, Command};
use cudnn_probe::{Origin, Search, environment_of};

use crate::check::finding::Help;
use crate::drop_in::Refusal;
use crate::escape::Printable;
use crate::platform::python_in;
use crate::python_shim::{self, PythonShim, Surroundings};
use crate::shell::doctor;

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
    /// search looks for cuDNN. `None` for a named file that is no Python.
    pub(crate) fn find(named: Option<&Path>, search: &Search) -> Option<Python> {
        let program = if let Some(named) = named {
            let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
            let is_file = named.is_file();
            let program = if named.is_dir() { python_in(&named) } else { named };
            let started = shim_in(&program).and_then(|shim| Some(shim.bin?.join("python3")));
            let program = started.unwrap_or(program);
            if is_file && !packages::is_python(&program) {
                return None;
            }
            program
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

/// Is this an environment that the shell has activated, and that is still there?
pub(crate) fn is_active(origin: &Origin) -> bool {
    matches!(origin, Origin::VirtualEnvironment(root) | Origin::Conda(root) if root.is_dir())
}

/// The virtual environment `.venv` of the working directory, or of the nearest directory above it that has one, as uv finds
/// it: if no environment is active, and it is not that of the first Python on `PATH`.
pub(crate) fn inactive_environment(search: &Search) -> Option<PathBuf> {
    let environments = search.environments();
    if environments.iter().any(is_active) {
        return None;
    }
    let dir = std::env::current_dir().ok()?;
    let found = dir.ancestors().map(|dir| dir.join(".venv")).find(|root| root.join("pyvenv.cfg").is_file())?;
    let real = cudnn_probe::canonicalize(&found).ok()?;
    let is_on_path = |root: &Path| cudnn_probe::canonicalize(root).is_ok_and(|root| root == real);
    (!environments.iter().filter_map(Origin::root).any(is_on_path)).then_some(found)
}

/// Why a file that the user has named is not used.
pub(crate) fn no_python(named: &Path) -> Refusal {
    let name = named.printable();
    let named = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
    match shim_in(&named).filter(|shim| shim.bin.is_none()) {
        Some(PythonShim { tool, .. }) => {
            Refusal::new(format!("{name} belongs to {tool}; which Python it starts is not known"))
                .help(help_for_shim(tool))
        }
        None => Refusal::new(format!("{name} is neither a Python interpreter nor an environment")),
    }
}

/// Has the doctor see the Python that the shims of this tool start.
pub(crate) fn help_for_shim(tool: &str) -> Help {
    let doctor = doctor();
    let list = match tool {
        "pyenv" => "pyenv versions",
        "asdf" => "asdf list python",
        tool => {
            let text = format!("let {tool} start the doctor, so that it sees the environment of the program:");
            return Help::new(text).command(format!("{tool} exec -- {doctor} check"));
        }
    };
    Help::new(format!(
        "select a version of Python that {tool} has installed, then run `{doctor} check` again; to see them:"
    ))
    .command(list)
}

/// The script or link of pyenv, asdf or another tool that this file is.
fn shim_in(program: &Path) -> Option<PythonShim> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::iter::once(program.parent()?.to_owned()).chain(std::env::split_paths(&path));
    let path: OsString = std::env::join_paths(dirs).ok()?;
    let variable = |name: &str| if name == "PATH" { Some(path.clone()) } else { std::env::var_os(name) };
    let shim = python_shim::find(&Surroundings { variable: &variable, working_dir: std::env::current_dir().ok() })?;
    (shim.file == program).then_some(shim)
}
