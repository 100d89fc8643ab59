//! Finds the Python that a command names or runs.

use cudnn_cli::command::Command;
use cudnn_cli::escape::Printable;
use cudnn_cli::path::{interpreter_of, path_dirs};
use cudnn_cli::programs::doctor;
use cudnn_frameworks::installation::is_virtual;
use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_probe::python::environment_of;
use cudnn_probe::{Origin, Search};

use crate::packages::python_shim::{self, PythonShim};
use crate::packages::{self, PackageChange, Site, python_in};
use crate::refusal::Refusal;
use crate::remedy::{Action, Remedy};

/// An interpreter with the environment that provides the packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The interpreter.
    pub program: PathBuf,
    /// The root of the environment.
    pub root: PathBuf,
    /// Whether this is a virtual environment.
    pub(crate) is_virtual: bool,
}

impl Python {
    /// Returns the interpreter or environment that the user named, or by default the interpreter of the first
    /// environment in the cuDNN search. Returns `None` for a file other than a Python, and for a directory with an
    /// interpreter that uses the packages of a different directory.
    pub fn find(named: Option<&Path>, search: &Search) -> Option<Python> {
        let program = if let Some(named) = named {
            let named = facts::absolute(named).unwrap_or_else(|_| named.to_owned());
            let is_file = named.leads_to_file();
            if named.leads_to_dir() && other_root(&named).is_some() {
                return None;
            }
            let program = if named.leads_to_dir() { python_in(&named) } else { named };
            let started = shim_in(&program).and_then(|shim| Some(shim.bin?.join("python3")));
            let program = started.unwrap_or(program);
            if is_file && !packages::is_python(&program) {
                return None;
            }
            program
        } else {
            let environments = search.environments();
            let roots = environments.iter().filter_map(Origin::root).filter(|root| other_root(root).is_none());
            roots.map(python_in).find(|program| program.leads_to_file())?
        };
        Python::of(program)
    }

    pub(crate) fn of(program: PathBuf) -> Option<Python> {
        // The path may name a missing program.
        let above_bin = || Some((program.parent()?.parent().unwrap_or(&program).to_owned(), false));
        let (root, is_virtual) = environment_of(&program).or_else(above_bin)?;
        Some(Python { program, root, is_virtual })
    }

    /// Returns the site that provides the packages.
    pub(crate) fn site(&self) -> Site {
        let real = |program: &Path| cudnn_probe::canonicalize(program).ok();
        // `/usr` can contain several Pythons.
        let is_main = real(&python_in(&self.root)) == real(&self.program);
        let site = Site::Environment(self.root.clone());
        if is_main && PackageChange::of(site.clone()).install(["pip"]).possible().is_some() {
            return site;
        }
        Site::Interpreter { program: self.program.clone(), root: self.root.clone() }
    }
}

/// Returns the root of the environment with the Python in the first line of this script, or `None` for a Python without
/// an environment, as in `#!/usr/bin/env python3`.
pub(crate) fn environment_of_script(script: &Path) -> Option<PathBuf> {
    let program = interpreter_of(script).filter(|program| packages::is_python(program) && program.is_absolute())?;
    environment_of(&program).map(|(root, _)| root).filter(|root| root.parent().is_some())
}

/// Returns the root of the packages that the interpreter in a directory uses, if that is a different directory. For
/// example, a virtual environment without `pyvenv.cfg` uses the packages of the base Python.
fn other_root(dir: &Path) -> Option<PathBuf> {
    let (root, _) = environment_of(&python_in(dir))?;
    (cudnn_probe::canonicalize(&root).ok()? != cudnn_probe::canonicalize(dir).ok()?).then_some(root)
}

/// Returns whether this environment is activated in the shell and still exists.
pub(crate) fn is_active(origin: &Origin) -> bool {
    matches!(origin, Origin::VirtualEnvironment(root) | Origin::Conda(root) if root.leads_to_dir())
}

/// Returns the virtual environment `.venv` in the working directory or the nearest parent, like uv does. Returns `None`
/// if an environment is active or if the first Python on `PATH` is in this one.
pub(crate) fn inactive_environment(search: &Search) -> Option<PathBuf> {
    let environments = search.environments();
    if environments.iter().any(is_active) {
        return None;
    }
    let dir = facts::current_dir().ok()?;
    let found = dir.ancestors().map(|dir| dir.join(".venv")).find(|root| is_virtual(root))?;
    let real = cudnn_probe::canonicalize(&found).ok()?;
    let is_on_path = |root: &Path| cudnn_probe::canonicalize(root).is_ok_and(|root| root == real);
    (!environments.iter().filter_map(Origin::root).any(is_on_path)).then_some(found)
}

/// Explains why a file named by the user is unsuitable.
pub fn no_python(named: &Path) -> Refusal {
    let name = named.printable();
    let named = facts::absolute(named).unwrap_or_else(|_| named.to_owned());
    match shim_in(&named).filter(|shim| shim.bin.is_none()) {
        Some(PythonShim { tool, .. }) => {
            Refusal::new(format!("{name} belongs to {tool}; which Python it starts is not known"))
                .help(help_for_shim(tool))
        }
        None => match other_root(&named).filter(|_| named.leads_to_dir()) {
            Some(root) => {
                let root = root.printable();
                let is_venv = named.join("lib").leads_to_dir() && !is_virtual(&named);
                let reason = if is_venv { " (pyvenv.cfg is missing)" } else { "" };
                let text = format!("recreate the environment; to check the other one, use `--python {root}`");
                Refusal::new(format!("the Python in {name} uses the packages in {root}{reason}"))
                    .help(Remedy::new(text))
            }
            None => Refusal::new(format!("{name} is neither a Python interpreter nor an environment")),
        },
    }
}

/// Suggests how to run the doctor with the Python that this tool's shims start.
pub(crate) fn help_for_shim(tool: &str) -> Remedy {
    let doctor = doctor();
    let list = match tool {
        "pyenv" => Command::new("pyenv", ["versions"]),
        "asdf" => Command::new("asdf", ["list", "python"]),
        tool => {
            let text = format!("let {tool} start the doctor, so that it sees the environment of the program:");
            let doctor = cudnn_cli::programs::doctor_command(["check"]);
            let words = ["exec".into(), "--".into(), doctor.program].into_iter().chain(doctor.arguments);
            return Remedy::new(text).action(Action::Inspect(Command::new(tool, words)));
        }
    };
    Remedy::new(format!(
        "select a version of Python that {tool} has installed, then run `{doctor} check` again; to see them:"
    ))
    .action(Action::Inspect(list))
}

/// Returns the shim of pyenv, asdf or another tool that this file represents.
fn shim_in(program: &Path) -> Option<PythonShim> {
    let dirs = std::iter::once(program.parent()?.to_owned()).chain(path_dirs());
    python_shim::find(dirs).filter(|shim| shim.file == program)
}
