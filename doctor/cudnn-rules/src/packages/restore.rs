//! Restores the Python of a virtual environment so that it can use the installed packages.

use cudnn_cli::command::Command;
use cudnn_cli::path::is_on_path;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{name_of_program, os_of, python_dirs, python_name, site_packages};
use cudnn_probe::facts::{self, PathFacts, is_executable};
use cudnn_probe::python::includes_base_packages;
use cudnn_probe::{Os, canonicalize};

use super::apt::python_tools;
use super::dirs::entries;
use super::environment::{has_pip, is_closed, is_virtual, python_in};
use super::installed_pip::lacks_venv;
use super::interpreter::{interpreters_on_path, is_in_unpacked_image};
use super::uv;

const NEW_PYTHON: &str = ".cudnn-doctor-new-python";

/// A problem that prevents a virtual environment's Python from using the installed packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PythonProblem {
    /// The Python is missing, damaged, or not accessible to this user.
    Missing,
    /// The packages need a different version than this, for example after a system upgrade.
    OtherVersion(String),
    /// `pyvenv.cfg` is missing or not a file, so the Python behaves like the base Python.
    NoSettings,
}

fn is_usable(python: &Path) -> bool {
    is_executable(python) && facts::metadata(python).is_ok_and(|file| file.len() > 0)
}

/// Returns the problem with the Python of the virtual environment at this root.
pub fn python_problem(root: &Path) -> Option<PythonProblem> {
    let python = python_in(root);
    if os_of(root) != Os::HOST {
        return None;
    }
    if Os::HOST == Os::Windows {
        return (is_virtual(root) && !python.leads_to_file()).then_some(PythonProblem::Missing);
    }
    // An unreadable Python still exists.
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
    match name_of_program(&python) {
        Some(now) if dirs.peek().is_some() && !dirs.any(|dir| dir.ends_with(&now)) => {
            Some(PythonProblem::OtherVersion(now))
        }
        _ => is_stripped.then_some(PythonProblem::NoSettings),
    }
}

/// Describes how to restore the Python that an environment's packages need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingPython {
    pub(crate) root: PathBuf,
    pub(crate) problem: PythonProblem,
    /// The Python version that the packages need: `python3.11`.
    pub(crate) version: Option<String>,
    /// The commands that recreate the Python. They build the new Python next to the old one and replace it only when
    /// complete. The list is empty without this Python version on `PATH`, because other versions would ignore the
    /// packages.
    pub(crate) commands: Vec<Command>,
    /// The files that the commands remove: files of other Python versions, and an unusable `pyvenv.cfg`.
    pub stale: Vec<PathBuf>,
}

/// Returns the repair for the virtual environment at this root, or `None` if the Python works.
pub(crate) fn restore_python(root: &Path) -> Option<MissingPython> {
    let problem = python_problem(root)?;
    let options = includes_base_packages(root).then_some("--system-site-packages");
    let version = match problem {
        PythonProblem::Missing => python_name(&python_in(root), root),
        _ => python_dirs(root).find_map(|dir| Some(dir.file_name()?.to_str()?.to_owned())),
    };
    let (commands, stale) = if uv::serves(root) {
        // uv finds or downloads this version.
        let number = version.as_ref().map(|name| ["--python".to_owned(), dotted(name)]);
        let venv = Command::new("uv", ["venv", "--allow-existing"]).and(options);
        (vec![venv.and(number.into_iter().flatten()).and([root])], Vec::new())
    } else if Os::HOST == Os::Windows {
        // The Python launcher finds this version. In the environment, python.exe is a file that venv replaces.
        let launcher = version.as_ref().filter(|_| is_on_path("py"));
        let program = if launcher.is_some() { "py" } else { "python" };
        let option = launcher.map(|name| format!("-{}", dotted(name)));
        (vec![Command::new(program, option).and(["-I", "-m", "venv"]).and(options).and([root])], Vec::new())
    } else {
        by_venv(root, &problem, version.as_deref(), options)
    };
    let commands = commands.into_iter().map(|command| command.changing(root)).collect();
    Some(MissingPython { root: root.to_owned(), problem, version, commands, stale })
}

/// Returns the commands that recreate the Python with a matching Python on `PATH`, and the files to remove.
fn by_venv(
    root: &Path,
    problem: &PythonProblem,
    version: Option<&str>,
    options: Option<&str>,
) -> (Vec<Command>, Vec<PathBuf>) {
    let bin = root.join("bin");
    let is_version =
        |program: &PathBuf| name_of_program(program).is_none_or(|found| version.is_none_or(|version| found == version));
    // The environment itself may be first on PATH.
    let mut programs = interpreters_on_path(version.unwrap_or("python3")).filter(|one| one.parent() != Some(&bin));
    let Some(program) = programs.next().filter(is_version) else { return Default::default() };
    // venv skips existing files, and fails on dangling links.
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
    // pip is already installed, and Debian's Python may not include ensurepip.
    let without_pip = (version.is_some() && has_pip(root)).then_some("--without-pip");
    let venv = |dir: &Path| Command::new(&program, ["-I", "-m", "venv"]).and(options).and(without_pip).and([dir]);
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
    // venv would wait for the writer of a named pipe.
    if let Some(settings) = unusable_settings(root) {
        commands.push(Command::new("rm", ["-rf"]).and([&settings]));
        stale.push(settings);
    }
    commands.push(venv(root));
    (commands, stale)
}

/// Returns the path of `pyvenv.cfg` if it exists but is not a file.
pub(crate) fn unusable_settings(root: &Path) -> Option<PathBuf> {
    Some(root.join("pyvenv.cfg")).filter(|settings| settings.path_exists() && !settings.leads_to_file())
}

/// Converts `python3.12` and `Python312` to `3.12`.
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

    /// Under WSL, it may be on a disk of Windows.
    #[test]
    #[cfg(all(test, target_os = "linux"))]
    #[allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test writes the files that the rules read")]
    fn the_python_of_another_system_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("Lib/site-packages")).unwrap();
        std::fs::write(dir.path().join("pyvenv.cfg"), "version = 3.12.4\n").unwrap();
        assert_eq!(python_problem(dir.path()), Some(PythonProblem::Missing));
        std::fs::create_dir(dir.path().join("Scripts")).unwrap();
        assert_eq!(python_problem(dir.path()), None);
    }

    #[test]
    fn a_version_has_a_dot_whatever_the_name_of_the_directory() {
        assert_eq!(dotted("Python312"), "3.12");
        assert_eq!(dotted("python3.9"), "3.9");
    }
}
