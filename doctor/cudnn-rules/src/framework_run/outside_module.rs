//! Detects modules that PYTHONHOME or PYTHONPATH imports from outside a Python environment.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_frameworks::real_path;
use cudnn_probe::Os;
use cudnn_probe::python::{is_package_dir, root_of_packages};

use crate::packages;
use crate::packages::python_in;
use crate::python::Python;
use crate::remedy::{Remedy, Variable, without_entries};

const HOME: &str = "PYTHONHOME";
const PATH: &str = "PYTHONPATH";

/// Standard modules that Python imports at startup. Replacing them prevents it from starting.
const AT_START: [&str; 7] =
    ["encodings", "os.py", "site.py", "codecs.py", "io.py", "sitecustomize.py", "usercustomize.py"];

pub(super) struct OutsideModule {
    pub(super) what: String,
    pub(super) help: Remedy,
}

impl OutsideModule {
    /// Compares the child's `sys.prefix` and framework file with the environment.
    pub(super) fn of(prefix: Option<&Path>, module: Option<&Path>, python: &Python) -> Option<OutsideModule> {
        OutsideModule::in_other_prefix(prefix?, python)
            .or_else(|| OutsideModule::in_other_home(python))
            .or_else(|| OutsideModule::from_file(module?, python))
    }

    /// Detects a Python that used a different environment than the executable belongs to.
    fn in_other_prefix(prefix: &Path, python: &Python) -> Option<OutsideModule> {
        if real_path(prefix) == real_path(&python.root) {
            return None;
        }
        let (used, expected) = (prefix.printable(), python.root.printable());
        let what = format!("Python took its modules from {used}, not from {expected}");
        Some(match home() {
            Some(home) => OutsideModule { what: format!("{what}: {HOME} leads there"), help: without_home(&home) },
            None => OutsideModule { what, help: Remedy::new(format!("name that environment: --python {used}")) },
        })
    }

    /// Detects a virtual environment that used another Python's standard library.
    fn in_other_home(python: &Python) -> Option<OutsideModule> {
        let home = home().filter(|_| python.is_virtual)?;
        // PYTHONHOME may have two parts, separated by a colon.
        let used = PathBuf::from(home.to_str()?.split(':').next()?);
        let program = cudnn_probe::canonicalize(&python.program).ok()?;
        let expected = program.parent()?.parent()?;
        if real_path(&used) == real_path(expected) {
            return None;
        }
        let (used, expected) = (used.printable(), expected.printable());
        let what = format!("Python took its standard library from {used}, not from {expected}: {HOME} leads there");
        Some(OutsideModule { what, help: without_home(&home) })
    }

    /// Detects a file in a PYTHONPATH directory outside the environment.
    pub(super) fn from_file(file: &Path, python: &Python) -> Option<OutsideModule> {
        let (file, root) = (real_path(file), real_path(&python.root));
        let (dir, change) = without(PATH, |dir| !file.starts_with(&root) && file.starts_with(real_path(dir)))?;
        let what = format!("Python took {} from {}: {PATH} leads there", file.printable(), dir.printable());
        let help = Remedy::new(format!("to use the packages of {}:", python.root.printable())).action(change);
        Some(OutsideModule { what, help })
    }

    /// Detects a PYTHONPATH entry that is itself a package with modules that shadow others: `jax/typing.py` shadows
    /// `typing`.
    pub(super) fn from_package_on_path() -> Option<OutsideModule> {
        let (dir, change) = without(PATH, is_package)?;
        let what = format!("{PATH} leads into a package: {}", dir.printable());
        Some(OutsideModule { what, help: replaced(&dir, change) })
    }
}

/// Returns the help if a variable prevents Python from starting.
pub(super) fn help_to_start(stderr: &[String]) -> Option<Remedy> {
    if let Some(home) = home() {
        return Some(without_home(&home));
    }
    let is_named = |dir: &Path| dir.to_str().is_some_and(|dir| stderr.iter().any(|line| line.contains(dir)));
    let leads = |dir: &Path| AT_START.iter().any(|name| dir.join(name).target_exists()) || is_named(dir);
    let (dir, change) = without(PATH, leads).or_else(|| without(PATH, is_package))?;
    Some(replaced(&dir, change))
}

fn replaced(dir: &Path, change: Variable) -> Remedy {
    let text = format!("{PATH} leads to modules in {} that replace Python's: remove that directory:", dir.printable());
    Remedy::new(text).action(change)
}

fn is_package(dir: &Path) -> bool {
    dir.join("__init__.py").leads_to_file()
}

/// Returns the Python that manages the package of this module, which may differ from the current Python. For a module
/// outside all environments, returns the origin as a clause.
pub(super) fn owner(module: &Path, python: &Python) -> Result<Python, String> {
    let is_in = |dir: &Path| real_path(module).starts_with(real_path(dir)) || module.starts_with(dir);
    if is_in(&python.root) || packages::user_base().is_some_and(|base| is_in(&base)) {
        return Ok(python.clone());
    }
    let root = module.ancestors().find(|dir| is_package_dir(dir)).and_then(|site| root_of_packages(site, Os::HOST));
    let program = root.map(python_in).filter(|program| program.leads_to_file());
    program.and_then(Python::of).ok_or_else(|| import_origin(module, python))
}

/// Explains why Python imports a module from outside the environment.
fn import_origin(module: &Path, python: &Python) -> String {
    const MAX_LEN: u64 = 1 << 16;
    let dirs: Vec<&Path> = module.ancestors().skip(1).filter(|dir| dir.parent().is_some()).collect();
    if let Some((dir, _)) = without(PATH, |dir| dirs.iter().any(|other| real_path(other) == real_path(dir))) {
        return format!("{PATH} leads to {}", dir.printable());
    }
    let is_path_file = |file: &&PathBuf| {
        let text = cudnn_probe::read_bounded(file, MAX_LEN).unwrap_or_default();
        let is_named = || String::from_utf8_lossy(&text).lines().any(|line| dirs.contains(&Path::new(line.trim())));
        file.extension().is_some_and(|extension| extension == "pth") && is_named()
    };
    let sites = site_packages(&python.root).flat_map(facts::read_dir).flatten();
    let files: Vec<PathBuf> = sites.map(|entry| entry.path()).collect();
    let customized = || files.iter().find(|file| file.ends_with("sitecustomize.py"));
    match files.iter().find(is_path_file).or_else(customized) {
        Some(file) => format!("{} leads there", file.printable()),
        None => "neither PYTHONPATH nor a .pth file names it".to_owned(),
    }
}

fn home() -> Option<PathBuf> {
    facts::variable(HOME).filter(|home| !home.is_empty()).map(PathBuf::from)
}

fn without_home(home: &Path) -> Remedy {
    let home = home.printable();
    Remedy::new(format!("{HOME} makes this Python import modules from {home}: unset it:")).unset(HOME)
}

/// Finds the absolute directories in a list variable that satisfy the predicate, like [`without_entries`].
pub(super) fn without(variable: &'static str, leads: impl Fn(&Path) -> bool) -> Option<(PathBuf, Variable)> {
    without_entries(variable, &facts::variable(variable)?, |dir| dir.is_absolute() && leads(dir))
}
