//! Which directory of cuDNN a command is about: the one of a Python environment, or one that is named. Does not know what
//! stands in it, but for the files that make it one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cudnn_probe::{InstallationReport, Library, Os};

use super::standing::{Files, shared_package};
use super::{KEPT, Refusal};
use crate::check::finding::Help;
use crate::context::Context;
use crate::escape::Printable;
use crate::platform::python_in;
use crate::python::{Python, no_python};
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
        [] => {
            let refusal = nothing(&root, command, context);
            Err(inactive(named, command, context).into_iter().fold(refusal, Refusal::help))
        }
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
        if is_denied(&python_in(&root)) {
            let message = format!("{variable} is {}, which this user may not read", root.printable());
            return Err(Refusal::new(message).help("run the command as a user who may"));
        }
        if root.is_absolute() && root.is_dir() {
            let refusal = Refusal::new(format!("{variable} is {}, which has no Python", root.printable()));
            return Err(refusal.help(Help::new("if it is meant all the same:").command(command.line(&root))));
        }
        let message = format!("{variable} is {}, which is not the absolute path of an environment", root.printable());
        return Err(Refusal::new(message).help("activate an environment that has a Python, or unset the variable"));
    }
    let python = match named {
        Named::Dir(dir) if dir.is_dir() => return Ok(dir.to_owned()),
        Named::Dir(dir) if is_denied(dir) => {
            return Err(Refusal::new(format!("this user may not read {}", dir.printable())));
        }
        Named::Dir(dir) => return Err(Refusal::new(format!("{} is no directory", dir.printable()))),
        Named::Python(python) => Python::find(Some(python), &context.search),
        Named::Nothing => Python::find(None, &context.search),
    };
    let refusal = || match named {
        Named::Python(python) if is_denied(python) || is_denied(&python_in(python)) => {
            Refusal::new(format!("this user may not read {}", python.printable()))
        }
        Named::Python(python) => no_python(python),
        _ => Refusal::new("no Python environment is active, and no Python is on PATH"),
    };
    let python = python.filter(|python| python.program.is_file()).ok_or_else(refusal);
    python.map(|python| python.root).map_err(|refusal| {
        let general =
            || format!("activate the environment, or name it: `{} {} --python ENVIRONMENT`", doctor(), command.name());
        let help = refusal.help.clone().or_else(|| inactive(named, command, context));
        refusal.help(help.unwrap_or_else(|| general().into()))
    })
}

/// The virtual environment of the working directory, which may be meant.
fn inactive(named: Named<'_>, command: Command<'_>, context: &Context) -> Option<Help> {
    let root = context.inactive_environment().filter(|_| matches!(named, Named::Nothing))?;
    let text = format!("the virtual environment {} is here and not active; to mean that one:", root.printable());
    Some(Help::new(text).command(command.line(&root)))
}

/// Is this path where this user may not enter?
fn is_denied(path: &Path) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
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
    let report = other.as_ref().and_then(|other| InstallationReport::read(&other.dir, &context.host));
    match other {
        Some(other) if report.as_ref().and_then(shared_package).is_some() => refusal.help(format!(
            "programs here would use the one in {} ({}), which all users share; put the drop-in in front of one program \
             instead: `{} run -- PROGRAM`",
            other.dir.printable(),
            other.origin,
            doctor()
        )),
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

#[cfg(test)]
mod tests {
    use cudnn_probe::ld_so::KnownFiles;
    use cudnn_probe::{Host, Search};
    use support::{TempDir, Version, copy_fake_set};

    use super::*;

    /// `install` refuses a directory that the package manager of the system owns.
    #[test]
    fn a_directory_of_the_system_is_not_recommended() {
        let (root, environment) = (TempDir::new(), TempDir::new());
        let dir = root.path().join("usr/lib/x86_64-linux-gnu");
        let info = root.path().join("var/lib/dpkg/info");
        for dir in [&dir, &info] {
            std::fs::create_dir_all(dir).unwrap_or_default();
        }
        copy_fake_set(Version::new(9, 19, 0), &dir);
        let context = || {
            let host = Host::sandbox(root.path()).env("LD_LIBRARY_PATH", &dir);
            Context {
                search: Search::new(host.clone()),
                host,
                files: KnownFiles::new(),
                python_shim: None,
                python: None,
                is_python_named: false,
            }
        };
        let refusal = || nothing(environment.path(), Command::Install { from: None }, &context()).to_string();
        assert!(refusal().contains("to mean that:"), "{}", refusal());
        let list = "/usr/lib/x86_64-linux-gnu/libcudnn_graph.so.9\n";
        std::fs::write(info.join("libcudnn9-cuda-12.list"), list).unwrap_or_default();
        assert!(refusal().contains(" run -- PROGRAM`") && !refusal().contains("to mean that:"), "{}", refusal());
    }
}
