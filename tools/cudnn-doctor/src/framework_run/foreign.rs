//! Modules from outside of a Python's environment, and the variables that lead there: PYTHONHOME and PYTHONPATH.

use std::path::{Path, PathBuf};

use cudnn_probe::packages;

use crate::check::finding::Help;
use crate::escape::Printable;
use crate::platform::python_in;
use crate::python::Python;
use crate::shell::{set_variable, unset_variable};

const HOME: &str = "PYTHONHOME";
const PATH: &str = "PYTHONPATH";

/// The directories of packages, in an environment and in Debian's Python.
const SITES: [&str; 2] = ["site-packages", "dist-packages"];

/// Files that Python imports when it starts: others in their place keep it from starting.
const AT_START: [&str; 7] =
    ["encodings", "os.py", "site.py", "codecs.py", "io.py", "sitecustomize.py", "usercustomize.py"];

/// That Python took modules from outside of its environment.
pub(super) struct Foreign {
    /// As a clause.
    pub(super) what: String,
    pub(super) help: Help,
}

impl Foreign {
    /// What the child's `sys.prefix` and the file of its framework show.
    pub(super) fn of(prefix: Option<&Path>, module: Option<&Path>, python: &Python) -> Option<Foreign> {
        Foreign::of_prefix(prefix?, python)
            .or_else(|| Foreign::of_home(python))
            .or_else(|| Foreign::of_file(module?, python))
    }

    /// A virtual environment's Python took the standard library of another Python.
    fn of_home(python: &Python) -> Option<Foreign> {
        let home = std::env::var_os(HOME).filter(|home| !home.is_empty())?;
        // It may have two parts.
        let home = home.to_str()?.split(':').next().map(PathBuf::from)?;
        let program = cudnn_probe::canonicalize(&python.program).ok()?;
        let base = program.parent()?.parent()?;
        if !python.is_virtual || real(&home) == real(base) {
            return None;
        }
        let (used, expected) = (home.printable(), base.printable());
        let what = format!("Python took its standard library from {used}, not from {expected}: {HOME} leads there");
        Some(Foreign { what, help: without_home() })
    }

    /// A directory of PYTHONPATH is itself a package, so that its modules replace others: `typing` of `jax/typing.py`.
    pub(super) fn of_package() -> Option<Foreign> {
        let (dir, line) = without(PATH, is_package)?;
        let what = format!("{PATH} leads into a package: {}", dir.printable());
        Some(Foreign { what, help: Help::new(text_for_package(&dir)).command(line) })
    }

    /// Python used another environment than that of its program.
    fn of_prefix(prefix: &Path, python: &Python) -> Option<Foreign> {
        if real(prefix) == real(&python.root) {
            return None;
        }
        let (used, expected) = (prefix.printable(), python.root.printable());
        let what = format!("Python took its modules from {used}, not from {expected}");
        Some(match std::env::var_os(HOME).filter(|home| !home.is_empty()) {
            Some(_) => Foreign { what: format!("{what}: {HOME} leads there"), help: without_home() },
            None => Foreign { what, help: Help::new(format!("name that environment: --python {used}")) },
        })
    }

    /// This file is from a directory of PYTHONPATH outside of the environment.
    pub(super) fn of_file(file: &Path, python: &Python) -> Option<Foreign> {
        let (file, root) = (real(file), real(&python.root));
        if file.starts_with(&root) {
            return None;
        }
        let leads = |dir: &Path| file.starts_with(real(dir));
        let (dir, line) = without(PATH, leads)?;
        let what = format!("Python took {} from {}: {PATH} leads there", file.printable(), dir.printable());
        let help = Help::new(format!("to use the packages of {}:", python.root.printable())).command(line);
        Some(Foreign { what, help })
    }
}

/// The help for a Python that does not start, if a variable keeps it from that.
pub(super) fn help_to_start(stderr: &[String]) -> Option<Help> {
    if std::env::var_os(HOME).is_some_and(|home| !home.is_empty()) {
        return Some(without_home());
    }
    let is_named = |dir: &Path| dir.to_str().is_some_and(|dir| stderr.iter().any(|line| line.contains(dir)));
    let leads = |dir: &Path| AT_START.iter().any(|name| dir.join(name).exists()) || is_named(dir);
    let (dir, line) = without(PATH, leads).or_else(|| without(PATH, is_package))?;
    let text = format!("{PATH} leads to modules in {} that replace Python's: remove that directory:", dir.printable());
    Some(Help::new(text).command(line))
}

/// Is it the directory of a package, and none of packages?
fn is_package(dir: &Path) -> bool {
    dir.join("__init__.py").is_file()
}

fn text_for_package(dir: &Path) -> String {
    let dir = dir.printable();
    format!("{PATH} leads into the package {dir}, whose modules replace those of Python: remove that directory:")
}

/// Where a framework's module is.
pub(super) enum Owner {
    /// In the environment of the Python that imports it.
    Same,
    /// In the environment of this one.
    Other(Python),
    /// Somewhere else: what brings it in, as a clause.
    Unknown(String),
}

/// Whose pip changes the package that this module belongs to.
pub(super) fn owner(module: &Path, python: &Python) -> Owner {
    let is_in = |dir: &Path| real(module).starts_with(real(dir)) || module.starts_with(dir);
    if is_in(&python.root) || packages::user_base().is_some_and(|base| is_in(&base)) {
        return Owner::Same;
    }
    let site = module.ancestors().find(|dir| SITES.iter().any(|site| dir.ends_with(site)));
    // `lib/python3.12/site-packages` is below the root.
    let root = site.and_then(|site| site.ancestors().nth(3));
    let program = root.map(python_in).filter(|program| program.is_file());
    match program.and_then(Python::of) {
        Some(python) => Owner::Other(python),
        None => Owner::Unknown(brought_in(module, python)),
    }
}

/// What has Python import a module from outside of its environment.
fn brought_in(module: &Path, python: &Python) -> String {
    const MAX_LEN: u64 = 1 << 16;
    let dirs: Vec<&Path> = module.ancestors().skip(1).filter(|dir| dir.parent().is_some()).collect();
    if let Some((dir, _)) = without(PATH, |dir| dirs.iter().any(|other| real(other) == real(dir))) {
        return format!("{PATH} leads to {}", dir.printable());
    }
    let is_named = |file: &PathBuf| {
        let text = cudnn_probe::read_bounded(file, MAX_LEN).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().any(|line| dirs.iter().any(|dir| Path::new(line.trim()) == *dir))
    };
    let entries = || packages::site_packages(&python.root).flat_map(std::fs::read_dir).flatten().flatten();
    let is_path_file = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "pth");
    let found = entries().map(|entry| entry.path()).find(|file| is_path_file(file) && is_named(file));
    let customized = || entries().map(|entry| entry.path()).find(|file| file.ends_with("sitecustomize.py"));
    match found.or_else(customized) {
        Some(file) => format!("{} leads there", file.printable()),
        None => "neither PYTHONPATH nor a .pth file names it".to_owned(),
    }
}

fn without_home() -> Help {
    let home = PathBuf::from(std::env::var_os(HOME).unwrap_or_default());
    let text = format!("{HOME} has this Python take its modules from {}: unset it:", home.printable());
    Help::new(text).command(unset_variable(HOME))
}

/// The first directory in a variable with a list of them that leads astray, and the line that takes each such directory
/// away from it.
pub(super) fn without(variable: &str, leads: impl Fn(&Path) -> bool) -> Option<(PathBuf, String)> {
    let path = std::env::var_os(variable)?;
    let leads = |dir: &PathBuf| dir.is_absolute() && leads(dir);
    let dir = std::env::split_paths(&path).find(leads)?;
    let rest = std::env::join_paths(std::env::split_paths(&path).filter(|other| !leads(other))).ok()?;
    let line = if rest.is_empty() { unset_variable(variable) } else { set_variable(variable, rest) };
    Some((dir, line))
}

fn real(file: &Path) -> PathBuf {
    cudnn_probe::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}
