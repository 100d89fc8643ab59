//! Virtual environments whose Python cannot be used for their packages, and how they get it back. Reads files; runs nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::command::Command;
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::layout::{self, python_dirs, root_of, setting, settings, site_packages, version_name, version_of_program};
use super::pip::{has_pip, is_closed, is_on_path, named_python};
use crate::platform::{Os, canonicalize, is_executable};

/// Why the Python of a virtual environment cannot be used for its packages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PythonProblem {
    /// It is missing or damaged, or lies where this user may not enter or start it.
    Missing,
    /// It is of another version than the one that the packages are for, as after an upgrade of the system: `python3.12`.
    OtherVersion(String),
    /// `pyvenv.cfg` is missing: it takes itself for the Python that the environment was made with.
    NoSettings,
}

/// What is wrong with the Python of the virtual environment at this root.
#[must_use]
pub fn python_problem(root: &Path) -> Option<PythonProblem> {
    let has_settings = root.join("pyvenv.cfg").is_file();
    let python = layout::python(root);
    if Os::HOST == Os::Windows {
        return (has_settings && !python.is_file()).then_some(PythonProblem::Missing);
    }
    // It is not missing.
    if is_closed(&python) || is_in_unpacked_image(&python) {
        return None;
    }
    let real = canonicalize(&python).ok();
    let is_outside = || real.as_ref().is_some_and(|real| canonicalize(root).is_ok_and(|root| !real.starts_with(root)));
    let has_packages = || site_packages(root).any(|dir| dir.is_dir());
    let is_stripped = !has_settings && root.join("bin/activate").is_file() && has_packages() && is_outside();
    if !has_settings && !is_stripped {
        return None;
    }
    if !is_executable(&python) || std::fs::metadata(&python).is_ok_and(|file| file.len() == 0) {
        return Some(PythonProblem::Missing);
    }
    let now = version_of_program(&python);
    let is_of_now = |dir: PathBuf| dir.file_name() == now.as_deref();
    if let Some(now) = &now
        && python_dirs(root).next().is_some()
        && !python_dirs(root).any(is_of_now)
    {
        return Some(PythonProblem::OtherVersion(now.to_string_lossy().into_owned()));
    }
    is_stripped.then_some(PythonProblem::NoSettings)
}

/// How a virtual environment gets back the Python that its packages are for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingPython {
    /// The root of the environment.
    pub root: PathBuf,
    /// What is wrong with the Python that it has.
    pub problem: PythonProblem,
    /// The name of the Python that its packages are for: `python3.11`.
    pub version: Option<String>,
    /// The commands that make the environment's Python again, each to be run only if the one before it succeeded: the new
    /// Python is made next to the old one, which it replaces only when it is complete. Empty if they would remove packages,
    /// or if no Python was found.
    pub commands: Vec<Command>,
    /// The name of the Python that the packages are for, if none is on `PATH`: `python3.12`. Another one does not
    /// import them, so the commands remove them.
    pub other_version: Option<String>,
}

/// What must be done before this command for pip or uv, if the Python of its virtual environment cannot be used.
#[must_use]
pub fn missing_python(command: &Command) -> Option<MissingPython> {
    let python = named_python(command);
    let root = root_of(python).filter(|root| layout::python(root) == python)?;
    restore_python(root, command.program == "uv")
}

/// How the virtual environment at this root gets back its Python, by uv if that is wanted. `None` if nothing is wrong
/// with it.
#[must_use]
pub fn restore_python(root: &Path, by_uv: bool) -> Option<MissingPython> {
    let problem = python_problem(root)?;
    let python = layout::python(root);
    let settings = settings(root).unwrap_or_default();
    let has_system = setting(&settings, "include-system-site-packages") == Some("true");
    let options = has_system.then_some("--system-site-packages");
    let of_packages = || python_dirs(root).filter_map(|dir| dir.file_name()?.to_str().map(str::to_owned)).next();
    let version = match problem {
        PythonProblem::Missing => version_name(&python, root).and_then(|name| name.into_string().ok()),
        _ => of_packages(),
    };
    let root = root.to_owned();
    if by_uv {
        // uv finds or downloads that version.
        let number = version.as_ref().map(|name| ["--python".to_owned(), dotted(name)]);
        let venv = Command::new("uv", ["venv", "--allow-existing"]).and(options);
        let commands = vec![venv.and(number.into_iter().flatten()).and([&root])];
        return Some(MissingPython { root, problem, version, commands, other_version: None });
    }
    if Os::HOST == Os::Windows {
        // Python's launcher finds that version. The program in the environment is a file, which venv replaces.
        let launcher = version.as_ref().filter(|_| is_on_path("py"));
        let program = if launcher.is_some() { "py" } else { "python" };
        let option = launcher.map(|name| format!("-{}", dotted(name)));
        let venv = Command::new(program, option).and(["-m", "venv"]).and(options).and([&root]);
        return Some(MissingPython { root, problem, version, commands: vec![venv], other_version: None });
    }
    // The environment may be the first on PATH.
    let bin = root.join("bin");
    let on_path = |name: &str| interpreters_on_path(name).find(|program| program.parent() != Some(&bin));
    let is_version = |program: &PathBuf| {
        version_of_program(program).is_none_or(|found| version.as_deref().is_some_and(|version| found == version))
    };
    let found = version.as_deref().and_then(on_path).filter(is_version);
    // venv keeps what is there, and fails at links that lead to no file.
    let entries = std::fs::read_dir(&bin).into_iter().flatten().flatten();
    let is_unusable = |path: &PathBuf| match problem {
        PythonProblem::Missing => !is_executable(path) || std::fs::metadata(path).is_ok_and(|file| file.len() == 0),
        PythonProblem::OtherVersion(_) => true,
        PythonProblem::NoSettings => false,
    };
    let is_python = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| ["python", "python3"].contains(&name) || name.starts_with("python3."))
    };
    let mut stale: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_python).filter(is_unusable).collect();
    stale.sort();
    let other_version = if found.is_none() { version.clone().or_else(|| Some("python3".into())) } else { None };
    let packages = other_version.as_ref().map(|version| root.join("lib").join(version)).filter(|dir| dir.is_dir());
    let is_of_version = found.is_some();
    let program = found.or_else(|| on_path("python3"));
    let Some(program) = program.filter(|_| !packages.as_deref().is_some_and(has_packages_of_others)) else {
        return Some(MissingPython { root, problem, version, commands: Vec::new(), other_version });
    };
    // What ensurepip would install is there, and Debian's Python may lack it.
    let without_pip = (is_of_version && has_pip(&root)).then_some("--without-pip");
    let venv = |dir: &Path| Command::new(&program, ["-m", "venv"]).and(options).and(without_pip).and([dir]);
    let mut commands = Vec::new();
    if !stale.is_empty() {
        let new = root.join(NEW_PYTHON);
        let mut names = vec![OsStr::new("python"), OsStr::new("python3")];
        names.extend(program.file_name().filter(|name| !names.contains(name)));
        stale.retain(|path| !names.iter().any(|name| path.file_name() == Some(name)));
        let programs = names.iter().map(|name| new.join("bin").join(name));
        commands.push(venv(&new));
        commands.push(Command::new("mv", ["-f"]).and(programs).and([&bin]));
        commands.push(Command::new("rm", ["-rf"]).and([new]).and(stale));
    }
    commands.push(venv(&root));
    commands.extend(packages.map(|dir| Command::new("rm", ["-rf"]).and([dir])));
    Some(MissingPython { root, problem, version, commands, other_version })
}

/// The directory in an environment in which its new Python is made.
const NEW_PYTHON: &str = "new-python";

/// `3.12` for `python3.12` and for `Python312`.
pub(super) fn dotted(version_name: &str) -> String {
    let version = version_name.trim_start_matches(['P', 'p']).trim_start_matches("ython");
    match version.split_at_checked(1).filter(|_| !version.contains('.')) {
        Some((major, minor)) => format!("{major}.{minor}"),
        None => version.to_owned(),
    }
}

/// Does this directory of a Python (`lib/python3.12`) have packages besides those that a new environment has?
fn has_packages_of_others(dir: &Path) -> bool {
    const NEW: [&str; 7] =
        ["pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack", "distutils-precedence.pth", "__pycache__"];
    let entries = std::fs::read_dir(dir.join("site-packages")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let stem = name.strip_suffix(".dist-info").and_then(|stem| stem.split_once('-')).map(|(name, _)| name);
        !NEW.contains(&stem.unwrap_or(&name))
    })
}
