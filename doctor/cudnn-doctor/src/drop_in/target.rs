//! Determines the cuDNN directory for a command, from a Python environment or a given path.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::{Library, Os};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::KEPT;
use cudnn_rules::drop_in::command::DropInCommand;
use cudnn_rules::drop_in::state::{DropInFiles, shared_package};
use cudnn_rules::packages::python_in;
use cudnn_rules::python::{Python, no_python};
use cudnn_rules::refusal::Refusal;
use cudnn_rules::remedy::{Action, Remedy};

fn show(command: DropInCommand<'_>, text: impl Into<String>, dir: &Path) -> Remedy {
    Remedy::new(text).action(Action::Inspect(command.command(dir)))
}

fn is_for(command: DropInCommand<'_>, dir: &Path) -> bool {
    match command {
        DropInCommand::Install { .. } => has_cudnn(dir),
        DropInCommand::Uninstall => has_left_over(dir),
    }
}

/// Selects the cuDNN directory of a command.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// A directory of cuDNN, or the root of an environment that contains one. Default: the active environment.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The environment to use, given as a Python interpreter or as the root directory.
    #[arg(long, value_name = "PATH", conflicts_with = "dir")]
    python: Option<PathBuf>,
}

/// Returns the canonical path of the cuDNN directory.
pub(crate) fn find(place: &Place, command: DropInCommand<'_>, context: &Context) -> Result<PathBuf, Refusal> {
    let root = root(place, command, context)?;
    let real_root = canonical(&root)?;
    let mut dirs: Vec<PathBuf> = Vec::new();
    for candidate in context.search.under_root(&root) {
        if has_cudnn(&candidate.dir) || has_left_over(&candidate.dir) {
            dirs.push(canonical(&candidate.dir)?);
        }
    }
    let mut known = HashSet::new();
    dirs.retain(|dir| known.insert(dir.clone()));
    // Another command may change the directories at the same time, so each is examined once.
    let suitable: Vec<PathBuf> = dirs.iter().filter(|dir| is_for(command, dir)).cloned().collect();
    if !suitable.is_empty() {
        dirs = suitable;
    }
    match dirs.as_slice() {
        [] => {
            let refusal = nothing(&root, command, context);
            Err(inactive(place, command, context).into_iter().fold(refusal, Refusal::help))
        }
        [dir] if dir.starts_with(&real_root) => Ok(dir.clone()),
        [dir] => {
            let (root, place) = (root.printable(), dir.printable());
            let message =
                format!("the cuDNN of {root} is outside of it, in {place}, where other environments may use it too");
            Err(Refusal::new(message).help(show(
                command,
                "to apply the command to all of them, name the directory:",
                dir,
            )))
        }
        several => {
            let help = Remedy::new("name one of these directories:");
            let help = help.actions(several.iter().map(|dir| Action::Inspect(command.command(dir))));
            let count = several.len();
            Err(Refusal::new(format!("{} has {count} installations of cuDNN", root.printable())).help(help))
        }
    }
}

fn root(place: &Place, command: DropInCommand<'_>, context: &Context) -> Result<PathBuf, Refusal> {
    let (python, refusal) = match (&place.dir, &place.python) {
        (Some(dir), _) if dir.is_dir() => return Ok(dir.to_owned()),
        (Some(dir), _) if is_denied(dir) => return Err(unreadable(dir)),
        (Some(dir), _) => return Err(Refusal::new(format!("{} is not a directory", dir.printable()))),
        (None, Some(python)) if is_denied(python) || is_denied(&python_in(python)) => (None, unreadable(python)),
        (None, Some(python)) => (Python::find(Some(python), &context.search), no_python(python)),
        (None, None) => {
            refuse_inconsistent(command)?;
            let refusal = Refusal::new("no Python environment is active, and no Python is on PATH");
            (Python::find(None, &context.search), refusal)
        }
    };
    python.filter(|python| python.program.is_file()).map(|python| python.root).ok_or_else(|| {
        let general =
            || format!("activate the environment, or name it: `{} {} --python ENVIRONMENT`", doctor(), command.name());
        let help = refusal.help.clone().or_else(|| inactive(place, command, context));
        refusal.help(help.unwrap_or_else(|| general().into()))
    })
}

fn unreadable(path: &Path) -> Refusal {
    Refusal::new(format!("this user may not read {}", path.printable()))
}

/// Refuses an active environment without a Python, because `PATH` would select another environment.
fn refuse_inconsistent(command: DropInCommand<'_>) -> Result<(), Refusal> {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(|name| Some((name, value(name)?)));
    let Some((variable, root)) = active else { return Ok(()) };
    if root.is_absolute() && python_in(&root).is_file() {
        return Ok(());
    }
    let refusal = |what: &str| Refusal::new(format!("{variable} is {}, which {what}", root.printable()));
    Err(if is_denied(&python_in(&root)) {
        refusal("this user may not read").help("run the command as a user who may")
    } else if root.is_absolute() && root.is_dir() {
        refusal("has no Python").help(show(command, "to use it anyway:", &root))
    } else {
        refusal("is not the absolute path of an environment")
            .help("activate an environment that has a Python, or unset the variable")
    })
}

/// Suggests the inactive virtual environment of the working directory.
fn inactive(place: &Place, command: DropInCommand<'_>, context: &Context) -> Option<Remedy> {
    let root = context.inactive_environment().filter(|_| place.dir.is_none() && place.python.is_none())?;
    let text = format!("the virtual environment {} exists here but is not active; to use it:", root.printable());
    Some(show(command, text, &root))
}

fn is_denied(path: &Path) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn canonical(path: &Path) -> Result<PathBuf, Refusal> {
    cudnn_probe::canonicalize(path)
        .map_err(|error| Refusal::new(format!("{} cannot be entered: {error}", path.printable())))
}

/// Returns whether the directory contains at least a part of cuDNN.
fn has_cudnn(dir: &Path) -> bool {
    let mut parts = Library::ALL.iter().filter(|library| **library != Library::Shim);
    parts.any(|library| dir.join(library.name_on(Os::HOST)).symlink_metadata().is_ok())
}

fn has_left_over(dir: &Path) -> bool {
    DropInFiles::in_dir(dir).kept.symlink_metadata().is_ok()
}

fn nothing(root: &Path, command: DropInCommand<'_>, context: &Context) -> Refusal {
    let refusal = Refusal::new(format!("there is no cuDNN 9 in {}", root.printable()));
    // `uninstall` also gets here if the saved shim is missing.
    let Some(other) = context.selected().filter(|other| !other.dir.starts_with(root)) else {
        return refusal.help(format!(
            "install cuDNN into it first (`{} check` shows how), or name the directory with {} or {KEPT}",
            doctor(),
            Library::Graph
        ));
    };
    let uses = format!("programs here would use the one in {} ({})", other.dir.printable(), other.origin);
    let report = InstallationReport::read(&other.dir, &context.host);
    match report.as_ref().and_then(shared_package) {
        Some(_) => refusal.help(format!(
            "{uses}, which all users share; put the drop-in in front of one program instead: `{} run -- PROGRAM`",
            doctor()
        )),
        None => refusal.help(show(command, format!("{uses}; to use that directory:"), &other.dir)),
    }
}

#[cfg(all(test, unix))]
mod tests;
