//! Which directory of cuDNN a command is about: the one of a Python environment, or one that is named. Does not know what
//! stands in it, but for the files that make it one.

use std::path::{Path, PathBuf};

use cudnn_probe::{Library, Os};

use super::standing::Files;
use super::{KEPT, Refusal};
use crate::check::finding::Help;
use crate::context::Context;
use crate::escape::Printable;
use crate::platform::python_in;
use crate::python::Python;
use crate::shell::{doctor, quoted_path};

/// The command that is asked for a directory.
#[derive(Clone, Copy)]
pub(crate) enum Command<'a> {
    /// `install`, with the directory of its option `--from`.
    Install {
        from: Option<&'a Path>,
    },
    Uninstall,
}

impl Command<'_> {
    fn name(self) -> &'static str {
        match self {
            Command::Install { .. } => "install",
            Command::Uninstall => "uninstall",
        }
    }

    /// The command for this directory.
    pub(crate) fn line(self, dir: &Path) -> String {
        let from = match self {
            Command::Install { from } => from.and_then(|from| std::path::absolute(from).ok()),
            Command::Uninstall => None,
        };
        let from = from.map(|from| format!(" --from {}", quoted_path(&from))).unwrap_or_default();
        format!("{} {} {}{from}", doctor(), self.name(), quoted_path(dir))
    }

    /// Is this a directory that the command is for, rather than another one that could be meant?
    fn is_for(self, dir: &Path) -> bool {
        match self {
            Command::Install { .. } => has_cudnn(dir),
            Command::Uninstall => has_left_over(dir),
        }
    }
}

/// What the user has named.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// A directory of cuDNN, or the root of what has one.
    Dir(&'a Path),
    /// A Python, or the root of its environment.
    Python(&'a Path),
    /// The active environment.
    Nothing,
}

/// The canonical directory.
pub(crate) fn find(named: Named<'_>, command: Command<'_>, context: &Context) -> Result<PathBuf, Refusal> {
    let root = root(named, command, context)?;
    let real_root = canonical(&root)?;
    let mut dirs: Vec<PathBuf> = Vec::new();
    for candidate in context.search.under_root(&root) {
        if !has_cudnn(&candidate.dir) && !has_left_over(&candidate.dir) {
            continue;
        }
        let dir = canonical(&candidate.dir)?;
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    if dirs.iter().any(|dir| command.is_for(dir)) {
        dirs.retain(|dir| command.is_for(dir));
    }
    match dirs.as_slice() {
        [] => Err(nothing(&root, command, context)),
        [dir] if dir.starts_with(&real_root) => Ok(dir.clone()),
        [dir] => Err(Refusal::new(format!(
            "the cuDNN of {} is outside of it, in {}: other environments may use it, too",
            root.printable(),
            dir.printable()
        ))
        .help(Help::new("to mean it for all of them, name the directory:").command(command.line(dir)))),
        several => {
            let help = Help::new("name the directory that you mean; one of:");
            let help = several.iter().fold(help, |help, dir| help.command(command.line(dir)));
            let count = several.len();
            Err(Refusal::new(format!("{} has {count} installations of cuDNN", root.printable())).help(help))
        }
    }
}

/// The root to look below.
fn root(named: Named<'_>, command: Command<'_>, context: &Context) -> Result<PathBuf, Refusal> {
    if let Named::Nothing = named
        && let Some((variable, root)) = active_environment()
        && !(root.is_absolute() && python_in(&root).is_file())
    {
        if root.is_absolute() && root.is_dir() {
            let refusal = Refusal::new(format!("{variable} is {}, which has no Python", root.printable()));
            return Err(refusal.help(Help::new("if it is meant all the same:").command(command.line(&root))));
        }
        let message = format!("{variable} is {}, which is not the absolute path of an environment", root.printable());
        return Err(Refusal::new(message).help("activate an environment that has a Python, or unset the variable"));
    }
    let python = match named {
        Named::Dir(dir) if dir.is_dir() => return Ok(dir.to_owned()),
        Named::Dir(dir) => return Err(Refusal::new(format!("{} is no directory", dir.printable()))),
        Named::Python(python) => Python::find(Some(python), &context.search),
        Named::Nothing => Python::find(None, &context.search),
    };
    let no_python = || match named {
        Named::Python(python) => Refusal::new(format!("{} is no Python, and no environment", python.printable())),
        _ => Refusal::new("no Python environment is active, and no Python is on PATH"),
    };
    let python = python.filter(|python| python.program.is_file()).ok_or_else(no_python);
    python.map(|python| python.root).map_err(|refusal| {
        refusal.help(format!(
            "activate the environment, or name it: `{} {} --python ENVIRONMENT`",
            doctor(),
            command.name()
        ))
    })
}

/// The environment that the shell has activated, and the variable that names it.
fn active_environment() -> Option<(&'static str, PathBuf)> {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(|name| Some((name, value(name)?.into())))
}

fn canonical(path: &Path) -> Result<PathBuf, Refusal> {
    cudnn_probe::canonicalize(path)
        .map_err(|error| Refusal::new(format!("{} cannot be entered: {error}", path.printable())))
}

/// Is a cuDNN here, be it incomplete?
fn has_cudnn(dir: &Path) -> bool {
    let mut parts = Library::ALL.iter().filter(|library| **library != Library::Shim);
    parts.any(|library| dir.join(library.name_on(Os::HOST)).symlink_metadata().is_ok())
}

/// Has `install` kept NVIDIA's shim here, be cuDNN there or not?
fn has_left_over(dir: &Path) -> bool {
    Files::in_dir(dir).kept.symlink_metadata().is_ok()
}

fn nothing(root: &Path, command: Command<'_>, context: &Context) -> Refusal {
    let refusal = Refusal::new(format!("there is no cuDNN 9 in {}", root.printable()));
    // `uninstall` after the kept file is gone, too.
    let other = context.selected().filter(|other| !other.dir.starts_with(root));
    match other {
        Some(other) => refusal.help(
            Help::new(format!(
                "programs here would use the one in {} ({}); to mean that:",
                other.dir.printable(),
                other.origin
            ))
            .command(command.line(&other.dir)),
        ),
        None => refusal.help(format!(
            "install cuDNN into it first (`{} check` shows how), or name the directory with {} or {KEPT}",
            doctor(),
            Library::Graph
        )),
    }
}
