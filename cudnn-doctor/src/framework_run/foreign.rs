//! Modules from outside of a Python's environment, and the variables that lead there: PYTHONHOME and PYTHONPATH.

use std::path::{Path, PathBuf};

use cudnn_probe::packages;

use crate::check::finding::Help;
use crate::escape::Printable;
use crate::python::Python;

const HOME: &str = "PYTHONHOME";
const PATH: &str = "PYTHONPATH";

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
        Foreign::of_prefix(prefix?, python).or_else(|| Foreign::of_file(module?, python))
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
    let (dir, line) = without(PATH, leads)?;
    let text = format!("{PATH} leads to modules in {} that replace Python's: remove that directory:", dir.printable());
    Some(Help::new(text).command(line))
}

fn without_home() -> Help {
    let home = PathBuf::from(std::env::var_os(HOME).unwrap_or_default());
    let text = format!("{HOME} has this Python take its modules from {}: unset it:", home.printable());
    Help::new(text).command(format!("unset {HOME}"))
}

/// The first directory in a variable with a list of them that leads astray, and the line that takes each such directory
/// away from it.
pub(super) fn without(variable: &str, leads: impl Fn(&Path) -> bool) -> Option<(PathBuf, String)> {
    let path = std::env::var_os(variable)?;
    let leads = |dir: &PathBuf| dir.is_absolute() && leads(dir);
    let dir = std::env::split_paths(&path).find(leads)?;
    let rest = std::env::join_paths(std::env::split_paths(&path).filter(|other| !leads(other))).ok()?;
    let line = if rest.is_empty() {
        format!("unset {variable}")
    } else {
        format!("export {variable}={}", packages::quoted(rest))
    };
    Some((dir, line))
}

fn real(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}
