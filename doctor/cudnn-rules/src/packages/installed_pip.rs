//! Finds the pip of a Python, or the commands that install it. All commands that start pip come from here, so that no
//! command uses a missing pip.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_cli::path::{interpreter_of, is_on_path, program_on_path};
use cudnn_frameworks::installation::{python_dirs, python_name, site_packages, user_site};
use cudnn_frameworks::pip_records;
use cudnn_os::files::below;
use cudnn_probe::facts::PathFacts;
use cudnn_probe::python::setting;
use cudnn_probe::{Host, Os, canonicalize};

use super::apt::{python_pip, python_tools};
use super::environment::{has_pip, imports_user_packages, is_managed, is_virtual, python_in, root_of};
use super::pip_options::redirecting_variables;

/// Starts pip with a Python that ignores the user's packages and modules in the working directory.
const PIP: [&str; 3] = ["-I", "-m", "pip"];

/// The directory of Debian's Pythons. apt-get installs pip for them.
const OF_DEBIAN: &str = "/usr/bin";

/// A Python and the root of the environment that it imports packages from.
pub(super) struct Interpreter {
    pub program: PathBuf,
    pub root: PathBuf,
}

impl Interpreter {
    pub(super) fn of(program: PathBuf) -> Option<Interpreter> {
        Some(Interpreter { root: root_of(&program)?.to_owned(), program })
    }

    pub(super) fn in_environment(root: &Path) -> Interpreter {
        Interpreter { program: python_in(root), root: root.to_owned() }
    }

    pub(super) fn imports_user_packages(&self) -> bool {
        imports_user_packages(&self.root)
    }

    pub(super) fn version(&self) -> Option<String> {
        python_name(&self.program, &self.root)
    }

    pub(super) fn user_site(&self) -> Option<PathBuf> {
        let version = self.version().filter(|_| self.imports_user_packages())?;
        user_site(&version, &Host::current(), Os::HOST)
    }

    /// Returns this Python's package directories without the user's. Debian's Python also uses some below /usr/local.
    pub(super) fn package_dirs(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let version = self.version();
        let is_of_python = move |dir: &PathBuf| {
            let above = dir.parent().unwrap_or(dir);
            let is_of_version = || version.as_ref().is_some_and(|version| above.ends_with(version));
            Os::HOST == Os::Windows || above.ends_with("python3") || is_of_version()
        };
        site_packages(&self.root).chain(site_packages(&self.root.join("local"))).filter(is_of_python)
    }

    fn pip_dir(&self) -> Option<PathBuf> {
        let dirs = self.package_dirs().chain(self.user_site()).map(|dir| dir.join("pip"));
        { dirs }.find(|dir| dir.leads_to_dir())
    }

    /// Returns the directory where [`Interpreter::missing_pip`] installs pip.
    fn new_pip_dir(&self) -> Option<PathBuf> {
        match Os::HOST {
            Os::Windows => Some(below(&self.root, "Lib/site-packages/pip")),
            _ if self.has_ensurepip() => Some(self.root.join("lib").join(self.version()?).join("site-packages/pip")),
            _ => Some(self.root.join("lib/python3/dist-packages/pip")),
        }
    }

    /// Returns whether this Python can import pip. For a Python of unknown version, any version's pip counts.
    pub(super) fn has_pip(&self) -> bool {
        self.pip_dir().is_some() || self.version().is_none() && has_pip(&self.root)
    }

    /// Returns whether this Python includes ensurepip, which can install pip. On Debian, ensurepip works only in
    /// virtual environments.
    pub(super) fn has_ensurepip(&self) -> bool {
        let root = &self.root;
        let is_disabled = || self.is_of_debian() && root.join("lib/python3/dist-packages").leads_to_dir();
        let base = match setting(root, "home").map(PathBuf::from) {
            Some(home) if Os::HOST == Os::Windows => Some(home),
            Some(home) => home.parent().map(Path::to_owned),
            None => (!is_virtual(root) && !is_managed(root) && !is_disabled()).then(|| root.clone()),
        };
        base.is_some_and(|base| self.has_ensurepip_of(&base))
    }

    fn has_ensurepip_of(&self, base: &Path) -> bool {
        let version = self.version();
        let of_base = |dir: PathBuf| match Os::HOST {
            Os::Windows => Some(below(base, "Lib/ensurepip")),
            _ => {
                let is_of_version = version.as_ref().is_none_or(|version| dir.ends_with(version));
                Some(base.join("lib").join(dir.file_name().filter(|_| is_of_version)?).join("ensurepip"))
            }
        };
        python_dirs(&self.root).filter_map(of_base).any(|dir| dir.leads_to_dir())
    }

    fn is_of_debian(&self) -> bool {
        let home = match is_virtual(&self.root) {
            true => setting(&self.root, "home").map(PathBuf::from),
            false => {
                Some(canonicalize(&self.program).ok().and_then(|real| Some(real.parent()?.into())).unwrap_or_default())
            }
        };
        let is_of_debian = |home: &Path| home == Path::new(OF_DEBIAN);
        home.is_none_or(|home| is_of_debian(&home) || canonicalize(&home).is_ok_and(|home| is_of_debian(&home)))
    }

    /// Returns the commands that install a missing pip, if there are any.
    fn missing_pip(&self) -> Option<Vec<Command>> {
        if self.has_pip() {
            return Some(Vec::new());
        }
        if self.has_ensurepip() {
            return Some(self.ensure_pip());
        }
        match is_virtual(&self.root) {
            _ if !self.is_of_debian() => None,
            true => Some([python_tools()?].into_iter().chain(self.ensure_pip()).collect()),
            false => Some(vec![python_pip()?]),
        }
    }

    /// Returns the commands that run ensurepip, which is a no-op while a record of a deleted pip exists.
    fn ensure_pip(&self) -> Vec<Command> {
        let records = site_packages(&self.root).flat_map(|dir| pip_records(&dir)).filter(|record| record.name == "pip");
        let lost: Vec<PathBuf> = records.map(|record| record.path).filter(|_| Os::HOST != Os::Windows).collect();
        let removal = (!lost.is_empty()).then(|| Command::new("rm", ["-r"]).and(lost).changing(&self.root));
        let ensure = Command::new(&self.program, ["-I", "-m", "ensurepip"]).changing(&self.root);
        removal.into_iter().chain([ensure]).collect()
    }

    /// Returns the commands that run pip, after the commands that install a missing pip. Because `-I` would hide the
    /// user's packages, a Python that imports them runs pip by path, which also excludes the working directory.
    pub(super) fn run_pip(&self, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
        self.run(self.imports_user_packages(), action, arguments)
    }

    /// Like [`Interpreter::run_pip`], for packages outside this Python. The user's packages only matter if pip is among
    /// them.
    pub(super) fn run_pip_for_others(&self, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
        let is_of_user = self.user_site().zip(self.pip_dir()).is_some_and(|(site, pip)| pip.starts_with(site));
        self.run(is_of_user, action, arguments)
    }

    fn run(&self, is_by_path: bool, action: &str, arguments: Vec<OsString>) -> Option<Vec<Command>> {
        let missing = self.missing_pip()?;
        let dir = if is_by_path { self.pip_dir().or_else(|| self.new_pip_dir()) } else { None };
        let pip = match dir {
            Some(dir) => start(&self.program, ["-E".as_ref(), dir.as_os_str()], action, arguments),
            None => start(&self.program, PIP, action, arguments),
        };
        Some(missing.into_iter().chain([pip]).collect())
    }

    /// Returns the command that runs pip after a step or another user has restored this Python with pip.
    pub(super) fn run_restored_pip(&self, action: &str, arguments: Vec<OsString>) -> Command {
        start(&self.program, PIP, action, arguments)
    }
}

/// Returns the commands that create an environment with this Python, and run pip there. Returns `None` if the
/// environment would have no pip. A program without a directory is not on `PATH`.
pub(super) fn in_new_environment(dir: &Path, program: &Path, arguments: Vec<OsString>) -> Option<Vec<Command>> {
    let python = Interpreter::of(program.to_owned()).filter(|_| program.is_absolute());
    let has_venv = |python: &Interpreter| Os::HOST == Os::Windows || python.has_ensurepip_of(&python.root);
    let tools = match python {
        Some(python) if has_venv(&python) => None,
        Some(python) if !python.is_of_debian() => return None,
        // apt-get installs Python, too.
        _ => Some(python_tools()?),
    };
    let venv = Command::new(program, ["-I", "-m", "venv"]).and([dir]).changing(dir);
    let pip = start(&python_in(dir), PIP, "install", arguments).changing(dir);
    Some(tools.into_iter().chain([venv, pip]).collect())
}

/// Returns whether this is Debian's Python without the python3-venv package.
pub(super) fn lacks_venv(python: &Path) -> bool {
    let root = root_of(python).filter(|root| root.join("lib/python3/dist-packages").leads_to_dir());
    root.is_some_and(|root| {
        let base = base_python(root);
        !base.takes_packages && !base.has_ensurepip
    })
}

/// The installation methods that a base Python (outside virtual environments) supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BasePython {
    /// Whether pip may install packages into this Python.
    pub(crate) takes_packages: bool,
    /// Whether pip is installed, so that it can at least fill other directories.
    pub(crate) has_pip: bool,
    /// Whether ensurepip is available for new virtual environments.
    pub(crate) has_ensurepip: bool,
}

pub(crate) fn base_python(root: &Path) -> BasePython {
    let python = Interpreter::in_environment(root);
    let (has_pip, has_ensurepip) = (python.has_pip(), python.has_ensurepip_of(root));
    BasePython { takes_packages: has_pip && !is_managed(root), has_pip, has_ensurepip }
}

/// Returns the pip on `PATH`. Debian's package also provides `pip3`. On Windows, `Scripts` is often missing from `PATH`
/// even if Python is there, and every Python has pip.
pub(super) fn on_path() -> Option<Command> {
    if Os::HOST == Os::Windows {
        return Some(Command::new("python", ["-m", "pip"]));
    }
    let name = ["pip", "pip3"].into_iter().find(|name| is_on_path(name) && !has_lost_pip(name))?;
    Some(Command::new(name, [""; 0]))
}

/// Returns whether this program is a script of pip for a Python without pip: an upgrade of Python leaves such scripts.
fn has_lost_pip(name: &str) -> bool {
    python_of_script(name).is_some_and(|python| !python.program.leads_to_file() || !python.has_pip())
}

pub(super) fn python_of_pip() -> Option<Interpreter> {
    python_of_script(on_path()?.program.to_str()?)
}

fn python_of_script(name: &str) -> Option<Interpreter> {
    let program = interpreter_of(&program_on_path(name)?)?;
    let is_python = program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
    if is_python { Interpreter::of(program) } else { None }
}

fn start<W: Into<OsString>>(
    python: &Path,
    pip: impl IntoIterator<Item = W>,
    action: &str,
    arguments: Vec<OsString>,
) -> Command {
    without_variables(Command::new(python, pip).and([action]).and(arguments))
}

/// Unsets environment variables that would redirect pip.
pub(super) fn without_variables(command: Command) -> Command {
    let options: Vec<OsString> =
        redirecting_variables().into_iter().flat_map(|name| ["-u".into(), name.into()]).collect();
    let is_needed = !options.is_empty() && Os::HOST != Os::Windows;
    if is_needed { command.started_by("env", options) } else { command }
}
