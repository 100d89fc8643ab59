//! Builds the pip commands that change the packages of a Python environment.

use cudnn_cli::command::Command;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{python_name, site_packages};
use cudnn_frameworks::pip_records;
use cudnn_probe::Os;
use cudnn_probe::facts::{PathFacts, is_executable};

use super::dirs::{named_data_dir, user_base};
use super::environment::{is_closed, is_managed, is_virtual};
use super::installed_pip::{Interpreter, in_new_environment, on_path, without_variables};
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::restore::python_problem;
use super::uv;

/// Name prefixes of frameworks. If a user installed such a framework, related packages go to the user's packages too.
const FRAMEWORKS: [&str; 7] =
    ["torch", "jax", "tensorflow", "onnxruntime", "ctranslate2", "nvidia-cudnn", "nvidia-cublas"];

/// Returns the Python that changes these packages among the user's packages, if they belong there instead of in this
/// Python's environment. `None` for virtual environments, where pip leaves the user's packages alone.
pub(super) fn python_for_user(python: Interpreter, names: &[String]) -> Option<Interpreter> {
    let root = &python.root;
    if is_virtual(root) || python_problem(root).is_some() || is_in_unpacked_image(&python.program) {
        return None;
    }
    if python.program.leads_to_file() {
        return is_for_user(&python, names).then_some(python);
    }
    python_of_user(&python.root, names)
}

/// Returns whether one of these packages is among the user's packages, or whether a framework is there and the Python
/// itself contains neither.
fn is_for_user(python: &Interpreter, names: &[String]) -> bool {
    let Some(site) = python.user_site() else { return false };
    let is_framework = |record: &str| FRAMEWORKS.iter().any(|framework| record.starts_with(framework));
    let has_framework = |dir: &Path| pip_records(dir).iter().any(|record| is_framework(&record.name));
    let is_of_python = |dir: PathBuf| has_any(&dir, names) || has_framework(&dir);
    has_any(&site, names) || has_framework(&site) && !python.package_dirs().any(is_of_python)
}

fn has_any(site: &Path, names: &[String]) -> bool {
    pip_records(site).iter().any(|record| names.contains(&record.name))
}

/// Returns the commands that run pip for the environment at this root. They use the environment's Python, because the
/// scripts in `bin` break with some paths. If the environment was created without pip, they use uv (if uv created it),
/// ensurepip, or the pip on `PATH`. For packages of Debian's Python below `/usr/local`, they use the Python that imports
/// them.
///
/// Returns `None` for a directory without a Python (`pip install --target` or `--prefix`). A different Python's pip
/// would change the wrong packages.
pub(super) fn pip(root: &Path, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    let python = Some(Interpreter::in_environment(root)).filter(|_| root.leads_to_dir())?;
    let is_of_image = is_in_unpacked_image(&python.program);
    if !is_of_image && uv::serves(root) {
        return Some(uv::pip(root, action, arguments));
    }
    if python_problem(root).is_some() || is_closed(&python.program) {
        return Some(vec![python.run_restored_pip(action, arguments).changing(root)]);
    }
    if !python.program.leads_to_file() || is_of_image {
        return with_python(&python_of_debian(root)?, action, arguments);
    }
    match on_path().filter(|_| !python.has_pip() && !python.has_ensurepip()) {
        Some(pip) => {
            let options = ["--python".into(), python.program.into_os_string()];
            Some(vec![without_variables(pip.and(options).and([action]).and(arguments)).changing(root)])
        }
        None => with_python(&python, action, arguments),
    }
}

/// Returns the commands that fill a directory with any pip: the pip on `PATH`, the pip of the Python on `PATH`, or a
/// new one.
pub(super) fn into_dir(arguments: Vec<OsString>) -> Option<Vec<Command>> {
    if let Some(pip) = on_path() {
        return Some(vec![without_variables(pip.and(["install"]).and(arguments))]);
    }
    let program = interpreters_on_path("python3").next();
    let python = program.clone().and_then(Interpreter::of).filter(Interpreter::has_pip);
    if let Some(python) = python {
        return python.run_pip_for_others("install", arguments);
    }
    in_new_environment(&named_data_dir("cudnn-doctor-pip")?, &program.unwrap_or_else(|| "python3".into()), arguments)
}

pub(super) fn with_python(python: &Interpreter, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    run(python, &python.root, action, arguments)
}

/// Returns the commands that change the user's packages, which are below this directory.
pub(super) fn for_user(program: &Path, base: &Path, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    let user = (action == "install").then(|| "--user".into());
    run(&Interpreter::of(program.to_owned())?, base, action, user.into_iter().chain(arguments).collect())
}

fn run(python: &Interpreter, changed: &Path, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    let is_changed = ["install", "uninstall"].contains(&action);
    let managed = (is_changed && is_managed(&python.root)).then(|| OsString::from("--break-system-packages"));
    let arguments = managed.into_iter().chain(arguments).collect();
    let mut commands = python.run_pip(action, arguments)?;
    let pip = commands.pop().map(|pip| pip.changing(changed));
    Some(commands.into_iter().chain(pip).collect())
}

fn pythons_with_pip(version: OsString) -> impl Iterator<Item = Interpreter> {
    let named = if Os::HOST == Os::Windows { "python" } else { "python3" };
    let of_version = version.to_str().map(interpreters_on_path).into_iter().flatten();
    let is_of_version = move |python: &Interpreter| python.version().is_some_and(|found| *found == *version);
    let others = interpreters_on_path(named).filter_map(Interpreter::of).filter(is_of_version);
    of_version.filter_map(Interpreter::of).chain(others).filter(Interpreter::has_pip)
}

/// Returns the Python on `PATH` that imports the user's packages in this directory.
fn python_of_user(base: &Path, names: &[String]) -> Option<Interpreter> {
    // `%APPDATA%\Python\Python312` belongs to one Python version.
    let (of_all, version) = match Os::HOST {
        Os::Windows => (base.parent()?, base.file_name()?.to_owned()),
        _ => {
            let dirs = site_packages(base).filter(|dir| dir.leads_to_dir());
            (base, dirs.min_by_key(|dir| !has_any(dir, names))?.parent()?.file_name()?.to_owned())
        }
    };
    let is_user_base = user_base().as_deref() == Some(of_all);
    if is_user_base { pythons_with_pip(version).find(Interpreter::imports_user_packages) } else { None }
}

/// Returns Debian's Python if the root contains packages that Debian's pip installed below `/usr/local`.
fn python_of_debian(root: &Path) -> Option<Interpreter> {
    let base = root.parent().filter(|_| root.ends_with("local"))?;
    let dir = site_packages(root).find(|dir| dir.ends_with("dist-packages") && dir.leads_to_dir())?;
    let version = dir.parent()?.file_name()?;
    let main =
        Some(base.join("bin/python3")).filter(|python| python_name(python, base).is_some_and(|name| *name == *version));
    let program = main.unwrap_or_else(|| base.join("bin").join(version));
    is_executable(&program).then(|| Interpreter { program, root: base.to_owned() })
}

pub(super) fn recorded_version(dirs: impl IntoIterator<Item = PathBuf>, wheel: &str) -> Option<String> {
    dirs.into_iter().flat_map(|dir| pip_records(&dir)).find(|record| record.name == wheel)?.version
}

#[cfg(test)]
mod tests;
