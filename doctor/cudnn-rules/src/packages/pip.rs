//! Builds the pip commands that change the packages of a Python environment.

use cudnn_cli::command::Command;
use cudnn_cli::path::{is_on_path, path_dirs};
use cudnn_probe::facts::{self, PathFacts};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_frameworks::normalized;
use cudnn_os::files::below;
use cudnn_probe::Os;
use cudnn_probe::facts::is_executable;

use super::dirs::{data_dir, user_base};
use super::environment::{
    base_python, has_ensurepip, has_pip, imports_user_packages, is_closed, is_managed, is_virtual, python_in, records,
    root_of, user_site, version_name, version_of_program,
};
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::requirement::package_name;
use super::restore::python_problem;
use super::{apt, uv};

/// Starts pip with a Python that ignores the user's packages. `-I` also excludes modules in the working directory.
const PIP: [&str; 3] = ["-I", "-m", "pip"];

/// Name prefixes of frameworks. If a user installed such a framework, related packages go to the user's packages too.
const FRAMEWORKS: [&str; 7] =
    ["torch", "jax", "tensorflow", "onnxruntime", "ctranslate2", "nvidia-cudnn", "nvidia-cublas"];

/// A Python and the root of the environment that it imports packages from.
pub(super) struct Python {
    pub program: PathBuf,
    pub root: PathBuf,
}

impl Python {
    fn of(program: PathBuf) -> Option<Python> {
        Some(Python { root: root_of(&program)?.to_owned(), program })
    }

    fn imports_user_packages(&self) -> bool {
        imports_user_packages(&self.root)
    }

    /// Returns the directory of the user's packages, if this Python imports them.
    fn user_site(&self) -> Option<PathBuf> {
        user_site(&version_name(&self.program, &self.root).filter(|_| self.imports_user_packages())?)
    }

    /// Returns this Python's package directories without the user's. Debian's Python also uses some below /usr/local.
    fn package_dirs(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let version = version_name(&self.program, &self.root);
        let is_of_python = move |dir: &PathBuf| {
            let name = dir.parent().and_then(Path::file_name);
            Os::HOST == Os::Windows || name.is_some_and(|name| Some(name) == version.as_deref() || name == "python3")
        };
        site_packages(&self.root).chain(site_packages(&self.root.join("local"))).filter(is_of_python)
    }

    /// Returns the directory of pip, or the directory where ensurepip would install pip.
    fn pip_dir(&self) -> Option<PathBuf> {
        let dirs = self.package_dirs().chain(self.user_site()).map(|dir| dir.join("pip"));
        let of_ensurepip = || match Os::HOST {
            Os::Windows => Some(below(&self.root, "Lib/site-packages/pip")),
            _ => Some(self.root.join("lib").join(version_name(&self.program, &self.root)?).join("site-packages/pip")),
        };
        { dirs }.find(|dir| dir.leads_to_dir()).or_else(|| of_ensurepip().filter(|_| has_ensurepip(&self.root)))
    }

    /// Returns whether these packages should be changed among the user's packages. This is the case if the user
    /// installed one of them before, or if only the user installed a framework and the packages are missing from the
    /// Python itself.
    fn is_for_user(&self, names: &[String]) -> bool {
        let Some(site) = self.user_site() else { return false };
        let is_framework = |record: &str| FRAMEWORKS.iter().any(|framework| record.starts_with(framework));
        let has_framework = |dir: &Path| records(dir).iter().any(|record| is_framework(&record.name));
        let is_of_python = |dir: PathBuf| has_any(&dir, names) || has_framework(&dir);
        has_any(&site, names) || has_framework(&site) && !self.package_dirs().any(is_of_python)
    }
}

/// Returns whether this directory contains a record of one of these packages.
fn has_any(site: &Path, names: &[String]) -> bool {
    records(site).iter().any(|record| names.contains(&record.name))
}

/// Extracts the package names from pip's arguments.
fn names(arguments: &[OsString]) -> Vec<String> {
    let words = arguments.iter().filter_map(|argument| argument.to_str());
    words.filter(|word| !word.starts_with('-')).map(|word| normalized(package_name(word))).collect()
}

/// Returns the commands that run pip for the environment at this root. They use the environment's Python, because the
/// scripts in `bin` break with some paths. If the environment was created without pip, they use uv (if uv created it),
/// ensurepip, or the pip on `PATH`. Some packages are installed outside the Python's own directories: the user's
/// packages, the packages of Debian's Python below `/usr/local`, and `pip install --prefix`. For these, the commands
/// use the Python that imports them.
///
/// Returns `None` if the directory is not an environment (`pip install --target`), or if the Python was not found. A
/// different Python's pip would change the wrong packages.
pub(super) fn pip(root: &Path, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    if !root.leads_to_dir() {
        return Some(vec![on_path().and([action]).and(arguments)]);
    }
    let python = python_in(root);
    let is_of_image = is_in_unpacked_image(&python);
    if !is_of_image && uv::serves(root) {
        return Some(uv::pip(root, action, arguments));
    }
    if python_problem(root).is_some() || is_closed(&python) {
        return Some(vec![start(&python, PIP, action, arguments).changing(root)]);
    }
    if !python.leads_to_file() || is_of_image {
        return match python_of_user(root, &names(&arguments)).or_else(|| python_of_debian(root)) {
            Some(python) => Some(with_python(&python, action, arguments)),
            None => for_prefix(root, action, arguments),
        };
    }
    if has_pip(root) || has_ensurepip(root) {
        return Some(with_python(&Python { program: python, root: root.to_owned() }, action, arguments));
    }
    if !["pip", "pip3"].iter().any(|pip| is_on_path(pip)) && Os::HOST != Os::Windows {
        let pip = start(&python, PIP, action, arguments).changing(root);
        return Some(apt::python_tools().into_iter().chain(ensure_pip(&python, root)).chain([pip]).collect());
    }
    let python = ["--python".into(), python.into_os_string()];
    Some(vec![without_variables(on_path().and(python).and([action]).and(arguments)).changing(root)])
}

/// Returns the pip command to suggest without a known path. Debian's package also provides `pip3`. On Windows,
/// `Scripts` is often missing from `PATH` even if Python is there.
pub(super) fn on_path() -> Command {
    match Os::HOST {
        Os::Linux if !is_on_path("pip") && is_on_path("pip3") => Command::new("pip3", [""; 0]),
        Os::Windows => Command::new("python", ["-m", "pip"]),
        _ => Command::new("pip", [""; 0]),
    }
}

/// Returns the commands that fill a directory with any pip: the pip on `PATH`, the pip of the Python on `PATH`, or a
/// new one.
pub(super) fn into_dir(arguments: Vec<OsString>) -> Vec<Command> {
    let on_path = on_path();
    if Os::HOST == Os::Windows || on_path.program.to_str().is_some_and(is_on_path) {
        return vec![without_variables(on_path.and(["install"]).and(arguments))];
    }
    let python = path_dirs().into_iter().map(|dir| dir.join("python3")).find(|python| python.leads_to_file());
    let base = python.as_deref().and_then(root_of).map(base_python).unwrap_or_default();
    let program = python.unwrap_or_else(|| "python3".into());
    let pip = |python: &Path| start(python, PIP, "install", arguments.clone());
    match data_dir().map(|data| data.join("cudnn-doctor-pip")) {
        Some(dir) if !base.has_pip => {
            let tools = apt::python_tools().filter(|_| !base.has_ensurepip);
            let venv = Command::new(program, ["-I", "-m", "venv"]).and([&dir]).changing(&dir);
            tools.into_iter().chain([venv, pip(&python_in(&dir))]).collect()
        }
        _ => vec![pip(&program)],
    }
}

/// Returns the commands that run pip with this Python. `-I` would hide the user's packages. For a Python that imports
/// them, the commands run pip by path instead, which also avoids searching the working directory.
pub(super) fn with_python(python: &Python, action: &str, arguments: Vec<OsString>) -> Vec<Command> {
    let Python { program, root } = python;
    let own_pip = if python.imports_user_packages() { python.pip_dir() } else { None };
    let has_place = arguments.iter().any(|argument| argument == "--target" || argument == "--prefix");
    let is_for_user = own_pip.is_some() && !has_place && python.is_for_user(&names(&arguments));
    let is_there = own_pip.as_ref().map_or_else(|| has_pip(root), |dir| dir.leads_to_dir());
    let ensure = (!is_there && has_ensurepip(root)).then(|| ensure_pip(program, root));
    let user = (is_for_user && action == "install").then(|| "--user".into());
    let managed = managed_option(root).filter(|_| action != "freeze");
    let arguments = managed.into_iter().chain(user).chain(arguments).collect();
    let pip = match &own_pip {
        Some(dir) => start(program, ["-E".as_ref(), dir.as_os_str()], action, arguments),
        None => start(program, PIP, action, arguments),
    };
    let changed = user_base().filter(|_| is_for_user).unwrap_or_else(|| root.clone());
    ensure.into_iter().flatten().chain([pip.changing(changed)]).collect()
}

/// Returns the commands that install pip with this Python. ensurepip does nothing while a record of a deleted pip exists.
fn ensure_pip(python: &Path, root: &Path) -> Vec<Command> {
    let records = site_packages(root).flat_map(|dir| records(&dir)).filter(|record| record.name == "pip");
    let lost: Vec<PathBuf> = records.map(|record| record.dir).filter(|_| Os::HOST != Os::Windows).collect();
    let removal = (!lost.is_empty()).then(|| Command::new("rm", ["-r"]).and(lost).changing(root));
    removal.into_iter().chain([Command::new(python, ["-I", "-m", "ensurepip"]).changing(root)]).collect()
}

/// Returns the option that lets pip change a Python managed by the distribution.
fn managed_option(root: &Path) -> Option<OsString> {
    is_managed(root).then(|| "--break-system-packages".into())
}

/// Returns a command that starts pip with this Python and these options.
fn start<W: Into<OsString>>(
    python: &Path,
    pip: impl IntoIterator<Item = W>,
    action: &str,
    arguments: Vec<OsString>,
) -> Command {
    without_variables(Command::new(python, pip).and([action]).and(arguments))
}

/// Unsets environment variables that would make pip install elsewhere.
fn without_variables(command: Command) -> Command {
    const NAMES: [&str; 6] = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_DRY_RUN"];
    let is_set = |name: &&str| facts::variable(name).is_some_and(|value| !value.is_empty());
    let options: Vec<OsString> = NAMES.into_iter().filter(is_set).flat_map(|name| ["-u".into(), name.into()]).collect();
    let is_needed = !options.is_empty() && Os::HOST != Os::Windows;
    if is_needed { command.started_by("env", options) } else { command }
}

/// Returns the Pythons on `PATH` that match this version (`python3.12`) and include pip.
fn pythons_with_pip(version: OsString) -> impl Iterator<Item = Python> {
    let named = if Os::HOST == Os::Windows { "python" } else { "python3" };
    let of_version = version.to_str().map(interpreters_on_path).into_iter().flatten();
    let is_of_version = move |python: &Python| {
        let found = match Os::HOST {
            Os::Windows => version_name(&python.program, &python.root),
            _ => version_of_program(&python.program),
        };
        found.as_ref() == Some(&version)
    };
    let others = interpreters_on_path(named).filter_map(Python::of).filter(is_of_version);
    let has_pip = |python: &Python| python.pip_dir().is_some_and(|dir| dir.leads_to_dir());
    of_version.filter_map(Python::of).chain(others).filter(has_pip)
}

/// Returns a package directory below this root, preferably one that contains these packages.
fn package_dir(root: &Path, names: &[String]) -> Option<PathBuf> {
    let mut dirs: Vec<PathBuf> = site_packages(root).filter(|dir| dir.leads_to_dir()).collect();
    dirs.sort_by_key(|dir| !has_any(dir, names));
    dirs.into_iter().next()
}

/// Returns the Python on `PATH` that imports the user's packages in this directory.
fn python_of_user(base: &Path, names: &[String]) -> Option<Python> {
    // `%APPDATA%\Python\Python312` belongs to one Python version.
    let (of_all, version) = match Os::HOST {
        Os::Windows => (base.parent()?, base.file_name()?.to_owned()),
        _ => (base, package_dir(base, names)?.parent()?.file_name()?.to_owned()),
    };
    let is_user_base = user_base().as_deref() == Some(of_all);
    if is_user_base { pythons_with_pip(version).find(Python::imports_user_packages) } else { None }
}

/// Returns Debian's Python if the root contains packages that its pip installed below `/usr/local`.
fn python_of_debian(root: &Path) -> Option<Python> {
    let base = root.parent().filter(|_| root.ends_with("local"))?;
    let dir = site_packages(root).find(|dir| dir.ends_with("dist-packages") && dir.leads_to_dir())?;
    let version = dir.parent()?.file_name()?;
    let main = Some(base.join("bin/python3")).filter(|python| version_name(python, base).as_deref() == Some(version));
    let program = main.unwrap_or_else(|| base.join("bin").join(version));
    is_executable(&program).then(|| Python { program, root: base.to_owned() })
}

/// Returns pip commands for a `pip install --prefix` directory. They use a Python of the same version, which finds the
/// packages through PYTHONPATH and replaces them. Debian's Python writes to `PREFIX/local`.
fn for_prefix(root: &Path, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    let site = package_dir(root, &names(&arguments)).filter(|_| Os::HOST != Os::Windows)?;
    let is_of_debian = site.ends_with("dist-packages");
    let prefix = if is_of_debian { root.parent().filter(|_| root.ends_with("local"))? } else { root };
    let fits = |base: &Path| !is_virtual(base) && is_of_debian == base.join("lib/python3/dist-packages").leads_to_dir();
    let version = site.parent()?.file_name()?.to_owned();
    let python = pythons_with_pip(version).find(|python| fits(&python.root))?;
    let mut path = OsString::from("PYTHONPATH=");
    path.push(&site);
    let options: Vec<OsString> = match action {
        "install" => vec!["--prefix".into(), prefix.into()],
        _ => managed_option(&python.root).into_iter().collect(),
    };
    let arguments = options.into_iter().chain(arguments).collect();
    let pip = start(&python.program, [python.pip_dir()?], action, arguments);
    Some(vec![pip.started_by("env", [path]).changing(prefix)])
}

/// Returns the version of a wheel in pip's records in these directories.
pub(super) fn recorded_version(dirs: impl IntoIterator<Item = PathBuf>, wheel: &str) -> Option<String> {
    dirs.into_iter().flat_map(|dir| records(&dir)).find(|record| record.name == wheel)?.version
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use cudnn_cli::command::command_line;

    #[test]
    #[cfg_attr(not(windows), ignore = "needs the file layout of Windows")]
    fn windows_environments_use_their_own_pip() {
        for (files, expected) in [
            (
                &["Scripts/python.exe", "pyvenv.cfg", "Lib/site-packages/pip/x"][..],
                r"$\Scripts\python.exe -I -m pip install x",
            ),
            // ensurepip comes from the base Python.
            (
                &["Scripts/python.exe", "pyvenv.cfg=home = $\\base", "Lib/site-packages/x", "base/Lib/ensurepip/x"],
                r"$\Scripts\python.exe -I -m ensurepip; $\Scripts\python.exe -I -m pip install x",
            ),
            (
                &["Scripts/python.exe", "pyvenv.cfg=uvx = 0.9", "Lib/site-packages/x"],
                r"python -m pip --python $\Scripts\python.exe install x",
            ),
            (
                &["python.exe", "python312.dll", "Lib/site-packages/pip/x"],
                r"$\python.exe -E $\Lib\site-packages\pip install x",
            ),
            // The environment's Python is missing.
            (&["pyvenv.cfg=version = 3.12.4", "Lib/site-packages/x"], r"$\Scripts\python.exe -I -m pip install x"),
            (&["nvidia/cudnn/bin/x"], ""),
        ] {
            let world = tempfile::tempdir().unwrap();
            let root = world.path().to_str().unwrap_or_default();
            for file in files {
                let (name, text) = file.split_once('=').unwrap_or((file, ""));
                let file = below(world.path(), name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text.replace('$', root)).unwrap();
            }
            let commands = pip(world.path(), "install", vec!["x".into()]).unwrap_or_default();
            assert_eq!(command_line(&commands).replace(root, "$"), expected, "{files:?}");
        }
    }
}
