//! How virtual environments get back a Python that can use their packages. Reads files; runs nothing.

use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{python_dirs, site_packages};
use cudnn_probe::facts::is_executable;
use cudnn_probe::{Os, canonicalize};

use super::apt::python_tools;
use super::command::Command;
use super::dirs::{entries, is_on_path};
use super::environment::{
    has_pip, is_closed, is_virtual, lacks_venv, python_in, setting, version_name, version_of_program,
};
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::uv;

/// The directory in an environment in which its new Python is made.
const NEW_PYTHON: &str = ".cudnn-doctor-new-python";

/// Why the Python of a virtual environment cannot be used for its packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PythonProblem {
    /// It is missing or damaged, or lies where this user may not enter or start it.
    Missing,
    /// It is of another version than the one that the packages are for, as after an upgrade of the system: `python3.12`.
    OtherVersion(String),
    /// `pyvenv.cfg` is missing: it takes itself for the Python that the environment was made with.
    NoSettings,
}

/// Can this file be started, as a Python can that is not damaged?
fn is_usable(python: &Path) -> bool {
    is_executable(python) && facts::metadata(python).is_ok_and(|file| file.len() > 0)
}

/// What is wrong with the Python of the virtual environment at this root.
pub(crate) fn python_problem(root: &Path) -> Option<PythonProblem> {
    let python = python_in(root);
    if Os::HOST == Os::Windows {
        return (is_virtual(root) && !python.leads_to_file()).then_some(PythonProblem::Missing);
    }
    // It is not missing.
    if is_closed(&python) || is_in_unpacked_image(&python) {
        return None;
    }
    let is_outside = || {
        let roots = canonicalize(&python).ok().zip(canonicalize(root).ok());
        roots.is_some_and(|(python, root)| !python.starts_with(root))
    };
    let has_packages = || site_packages(root).any(|dir| dir.leads_to_dir());
    let is_stripped = !is_virtual(root) && root.join("bin/activate").leads_to_file() && has_packages() && is_outside();
    if !is_virtual(root) && !is_stripped {
        return None;
    }
    if !is_usable(&python) {
        return Some(PythonProblem::Missing);
    }
    let mut dirs = python_dirs(root).peekable();
    match version_of_program(&python) {
        Some(now) if dirs.peek().is_some() && !dirs.any(|dir| dir.file_name() == Some(&now)) => {
            Some(PythonProblem::OtherVersion(now.to_string_lossy().into_owned()))
        }
        _ => is_stripped.then_some(PythonProblem::NoSettings),
    }
}

/// How a virtual environment gets back the Python that its packages are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingPython {
    /// The root of the environment.
    pub(crate) root: PathBuf,
    /// What is wrong with the Python that it has.
    pub(crate) problem: PythonProblem,
    /// The name of the Python that its packages are for: `python3.11`.
    pub(crate) version: Option<String>,
    /// The commands that make the environment's Python again, each to be run only if the one before it succeeded: the new
    /// Python is made next to the old one, which it replaces only when it is complete. Empty if no Python of that version
    /// is on `PATH`, since another one does not import the packages.
    pub(crate) commands: Vec<Command>,
    /// The names of other Pythons that these commands remove.
    pub(crate) stale: Vec<PathBuf>,
}

/// How the virtual environment at this root gets back its Python. `None` if nothing is wrong with it.
pub(crate) fn restore_python(root: &Path) -> Option<MissingPython> {
    let problem = python_problem(root)?;
    let has_system = setting(root, "include-system-site-packages").as_deref() == Some("true");
    let options = has_system.then_some("--system-site-packages");
    let version = match problem {
        PythonProblem::Missing => version_name(&python_in(root), root),
        _ => python_dirs(root).filter_map(|dir| Some(dir.file_name()?.to_owned())).next(),
    };
    let version = version.and_then(|name| name.into_string().ok());
    let (commands, stale) = if uv::serves(root) {
        // uv finds or downloads that version.
        let number = version.as_ref().map(|name| ["--python".to_owned(), dotted(name)]);
        let venv = Command::new("uv", ["venv", "--allow-existing"]).and(options);
        (vec![venv.and(number.into_iter().flatten()).and([root])], Vec::new())
    } else if Os::HOST == Os::Windows {
        // Python's launcher finds that version. The program in the environment is a file, which venv replaces.
        let launcher = version.as_ref().filter(|_| is_on_path("py"));
        let program = if launcher.is_some() { "py" } else { "python" };
        let option = launcher.map(|name| format!("-{}", dotted(name)));
        (vec![Command::new(program, option).and(["-m", "venv"]).and(options).and([root])], Vec::new())
    } else {
        by_venv(root, &problem, version.as_deref(), options)
    };
    let commands = commands.into_iter().map(|command| command.changing(root)).collect();
    Some(MissingPython { root: root.to_owned(), problem, version, commands, stale })
}

/// The commands that make the Python again by the module venv of the Python on `PATH` with this version, and the files that
/// they remove.
fn by_venv(
    root: &Path,
    problem: &PythonProblem,
    version: Option<&str>,
    options: Option<&str>,
) -> (Vec<Command>, Vec<PathBuf>) {
    let bin = root.join("bin");
    let is_version = |program: &PathBuf| {
        version_of_program(program).is_none_or(|found| version.is_none_or(|version| found == version))
    };
    // The environment may be the first on PATH.
    let mut programs = interpreters_on_path(version.unwrap_or("python3")).filter(|one| one.parent() != Some(&bin));
    let Some(program) = programs.next().filter(is_version) else { return Default::default() };
    // venv keeps what is there, and fails at links that lead to no file.
    let is_stale = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_python = ["python", "python3"].contains(&name) || name.starts_with("python3.");
        is_python
            && match problem {
                PythonProblem::Missing => !is_usable(path),
                PythonProblem::OtherVersion(_) => true,
                PythonProblem::NoSettings => false,
            }
    };
    let mut stale: Vec<PathBuf> = entries(&bin).filter(is_stale).collect();
    stale.sort();
    // What ensurepip would install is there, and Debian's Python may lack it.
    let without_pip = (version.is_some() && has_pip(root)).then_some("--without-pip");
    let venv = |dir: &Path| Command::new(&program, ["-m", "venv"]).and(options).and(without_pip).and([dir]);
    let needed = python_tools().filter(|_| without_pip.is_none() && lacks_venv(&program));
    let mut commands: Vec<Command> = needed.into_iter().collect();
    if !stale.is_empty() {
        let new = root.join(NEW_PYTHON);
        let mut names = vec!["python".as_ref(), "python3".as_ref()];
        names.extend(program.file_name().filter(|name| !names.contains(name)));
        stale.retain(|path| !path.file_name().is_some_and(|name| names.contains(&name)));
        let programs = names.iter().map(|name| new.join("bin").join(name));
        commands.push(venv(&new));
        commands.push(Command::new("mv", ["-f"]).and(programs).and([&bin]));
        commands.push(Command::new("rm", ["-rf"]).and([new]).and(&stale));
    }
    commands.push(venv(root));
    (commands, stale)
}

/// `3.12` for `python3.12` and for `Python312`.
fn dotted(version_name: &str) -> String {
    let version = version_name.trim_start_matches(|c: char| !c.is_ascii_digit());
    match version.split_at_checked(1).filter(|_| !version.contains('.')) {
        Some((major, minor)) => format!("{major}.{minor}"),
        None => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_dot_whatever_the_name_of_the_directory() {
        assert_eq!(dotted("Python312"), "3.12");
        assert_eq!(dotted("python3.9"), "3.9");
    }
}
