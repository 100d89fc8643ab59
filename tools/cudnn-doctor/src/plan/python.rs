//! The lines that make the Python of a virtual environment again, if that cannot be used.

use std::path::{Path, PathBuf};

use super::line::{Line, Remark, Rendered, by_link};
use crate::escape::Printable;
use crate::packages::{self, MissingPython, PackageChange, PythonProblem};
use crate::remedy::{Action, Remedy};
use crate::shell::{SEPARATOR, doctor, link_to};

/// The root of the environment whose Python this change needs, and that has to be made again.
pub(super) fn needed_by(change: &PackageChange) -> Option<PathBuf> {
    let missing = packages::restore_python(change.site.python_root()?)?;
    by_hand(&missing).is_none().then_some(missing.root)
}

/// Cannot the Python of the environment at this root be used?
pub(super) fn is_lost(root: &Path) -> bool {
    packages::python_problem(root).is_some()
}

/// What the text of a remedy for the environment at this root says of its Python.
pub(super) fn remark(root: &Path) -> Option<Remark> {
    if packages::has_closed_python(root) {
        return Some(Remark::Before(format!("this user may not read the Python of {}; ", root.printable())));
    }
    let missing = packages::restore_python(root)?;
    let what = what_is_lost(&missing);
    Some(match by_hand(&missing) {
        Some(text) => Remark::Instead(format!("{what}; {text}")),
        None => Remark::Before(format!("{what}: make it again in place, then ")),
    })
}

/// What is wrong with the Python of the virtual environment at this root, and the remedy that makes it again.
pub(crate) fn restore_python(root: &Path) -> Option<(String, Remedy)> {
    let missing = packages::restore_python(root)?;
    let remedy = match by_hand(&missing) {
        Some(text) => Remedy::new(text),
        None => Remedy::new("make it again in place:").action(Action::Python(root.to_owned())),
    };
    Some((what_is_lost(&missing), remedy))
}

/// What a person has to do, if no command makes the Python again.
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
            "venv refuses a name with a {separator}: make a new environment under a name without one, with all its packages"
        )
    })
}

/// The lines that make the Python of the virtual environment at this root again. `None` if nothing is wrong with it, or
/// nothing can be done.
pub(super) fn restoring(root: &Path) -> Option<Rendered> {
    lines(&packages::restore_python(root).filter(|missing| !missing.commands.is_empty())?)
}

/// The lines that run these commands, each only after the success of the one before it, also where a shell reads on after a
/// failure. venv refuses a root that contains the separator of PATH. If only a directory above contains it, the lines use a
/// link to that directory; `None` means that no link can help.
fn lines(missing: &MissingPython) -> Option<Rendered> {
    let MissingPython { root, commands, .. } = missing;
    let mut commands = packages::with_lists(commands.clone());
    if !has_separator(root) || !commands.iter().any(|command| command.has("-m")) {
        return Some(Rendered::lines([Line::Run(commands)]));
    }
    let name = root.file_name().filter(|name| !has_separator(Path::new(name)))?;
    let link = link_to(root.parent()?)?;
    let named = link.name.join(name);
    for argument in commands.iter_mut().filter(|command| command.has("venv")).flat_map(|one| &mut one.arguments) {
        if let Ok(below) = Path::new(argument).strip_prefix(root) {
            // A path that is joined with nothing would end in a slash.
            let path = if below == Path::new("") { named.clone() } else { named.join(below) };
            *argument = path.into_os_string();
        }
    }
    let lines = Rendered::lines([Line::Run(link.commands), Line::Run(commands)]);
    Some(lines.remark(by_link("no search path can contain a name with a colon")))
}

fn has_separator(path: &Path) -> bool {
    // On Windows, the colon after the letter of a drive separates nothing.
    path.as_os_str().as_encoded_bytes().contains(&(SEPARATOR as u8))
}

fn what_is_lost(missing: &MissingPython) -> String {
    let root = missing.root.printable();
    match &missing.problem {
        PythonProblem::OtherVersion(now) => {
            let version = missing.version.as_deref().unwrap_or("another one");
            format!("the Python of {root} is now {now}, and its packages are for {version}")
        }
        PythonProblem::NoSettings => {
            format!("pyvenv.cfg is missing in {root}, so that its Python uses the packages of another environment")
        }
        PythonProblem::Missing => format!("the Python of {root} is missing, or this user cannot start it"),
    }
}
