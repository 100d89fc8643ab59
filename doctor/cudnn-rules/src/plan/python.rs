//! Renders the lines that recreate a broken Python of a virtual environment.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_cli::shell::SEPARATOR;

use super::line::{Line, Remark, Rendered};
use crate::packages::{self, MissingPython, PackageChange, PythonProblem};
use crate::remedy::{Action, Remedy};

/// Returns the root of the environment if this change needs the environment's Python and that is broken.
pub(super) fn needed_by(change: &PackageChange) -> Option<PathBuf> {
    let missing = packages::restore_python(change.site.python_root()?)?;
    by_hand(&missing).is_none().then_some(missing.root)
}

pub(super) fn remark(root: &Path) -> Option<Remark> {
    if packages::has_closed_python(root) {
        return Some(Remark::Before(format!("this user may not read the Python of {}; ", root.printable())));
    }
    let missing = packages::restore_python(root)?;
    let what = what_is_lost(&missing);
    Some(match by_hand(&missing) {
        Some(text) => Remark::Instead(format!("{what}; {text}")),
        None => Remark::Before(format!("{what}: recreate it in place, then ")),
    })
}

/// Describes the problem with the virtual environment's Python and the remedy that recreates it.
pub(crate) fn restore_python(root: &Path) -> Option<(String, Remedy)> {
    let missing = packages::restore_python(root)?;
    let remedy = match by_hand(&missing) {
        Some(text) => Remedy::new(text),
        None => Remedy::new("recreate it in place:").action(Action::Python(root.to_owned())),
    };
    Some((what_is_lost(&missing), remedy))
}

fn by_hand(missing: &MissingPython) -> Option<String> {
    if missing.commands.is_empty() {
        let version = missing.version.as_deref().unwrap_or("python3");
        return Some(format!(
            "no {version} is on PATH: install that, so that the environment's packages work again, and run `{} check` \
             again; or make a new environment with all its packages",
            doctor()
        ));
    }
    lines(missing).is_none().then(|| {
        let separator = if SEPARATOR == ';' { "semicolon" } else { "colon" };
        format!(
            "venv rejects a path with a {separator}: create a new environment at a path without one, with the same packages"
        )
    })
}

/// Returns the lines that recreate the Python of a virtual environment, if it is broken and can be recreated.
pub(super) fn restoring(root: &Path) -> Option<Rendered> {
    lines(&packages::restore_python(root).filter(|missing| !missing.commands.is_empty())?)
}

/// Renders these commands so that a failure stops the rest, even in a shell that continues after errors. Returns `None`
/// if venv refuses the root, because it contains the separator of PATH.
fn lines(missing: &MissingPython) -> Option<Rendered> {
    let commands = packages::with_lists(missing.commands.clone());
    // On Windows, the colon after a drive letter is allowed.
    let has_separator = missing.root.as_os_str().as_encoded_bytes().contains(&(SEPARATOR as u8));
    let is_refused = has_separator && commands.iter().any(|command| command.has("-m"));
    (!is_refused).then(|| Rendered::lines([Line::Run(commands)]))
}

fn what_is_lost(missing: &MissingPython) -> String {
    let root = missing.root.printable();
    match &missing.problem {
        PythonProblem::OtherVersion(now) => {
            let version = missing.version.as_deref().unwrap_or("another one");
            format!("the Python of {root} is now {now}, but its packages are for {version}")
        }
        PythonProblem::NoSettings => {
            let state =
                if packages::unusable_settings(&missing.root).is_some() { "not a regular file" } else { "missing" };
            format!("pyvenv.cfg is {state} in {root}, so its Python uses the packages of another environment")
        }
        PythonProblem::Missing => format!("the Python of {root} is missing, or this user cannot start it"),
    }
}
