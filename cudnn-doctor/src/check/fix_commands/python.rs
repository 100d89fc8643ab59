//! The Python of a virtual environment that cannot be used: what is lost, and the commands that make it again.

use std::path::Path;

use cudnn_probe::packages::{self, Command, MissingPython, PythonProblem};

use super::lines::{is_foreign, line};
use crate::check::finding::Help;
use crate::check::installers::{SystemTools, prepared};
use crate::escape::Printable;
use crate::shell::{doctor, link_to};

/// The help with these commands, for a virtual environment whose Python cannot be used.
pub(super) fn with_python(missing: MissingPython, text: &str, commands: &[Command]) -> Help {
    let what = what_is_lost(&missing);
    let MissingPython { root, commands: restore, other_version, .. } = missing;
    if restore.is_empty() {
        let version = other_version.unwrap_or_default();
        return Help::new(format!(
            "{what}, and no {version} is on PATH: install that, so that the environment's packages work again, and run \
             `{} check` again; or make a new environment with all its packages",
            doctor()
        ));
    }
    let text = match &other_version {
        None => format!("{what}: make it again in place, then {text}"),
        Some(version) => format!(
            "{what}, and no {version} is on PATH: install that first, and run `{} check` again; or give the environment \
             another Python, which needs all its packages again, not only these; then {text}",
            doctor()
        ),
    };
    let Some(lines) = restoring(&restore, &root) else { return not_by_venv(&format!("{what}; ")) };
    let help = lines.into_iter().fold(Help::new(text), Help::command);
    commands.iter().fold(help, |help, command| {
        let mut command = command.clone();
        // The environment lacks the dependencies, too.
        command.arguments.retain(|argument| other_version.is_none() || argument != "--no-deps");
        help.command(line(&command))
    })
}

/// The lines that make the Python of the environment at this root again. venv refuses a root with a colon, which PATH
/// cannot contain: one whose parent has the colon gets a link, and `None` is for one that has it itself.
fn restoring(commands: &[Command], root: &Path) -> Option<Vec<String>> {
    let sudo = if is_foreign(root) { "sudo " } else { "" };
    let of_root = |command: &Command| {
        if command.needs_root() { line(command) } else { format!("{sudo}{command}") }
    };
    let lines = |commands: &[Command]| prepared(commands, &SystemTools::here()).iter().map(of_root).collect();
    let is_venv = |command: &Command| ["-m", "venv"].iter().all(|word| command.arguments.iter().any(|one| one == word));
    if !commands.iter().any(is_venv) || !has_colon(root) {
        return Some(lines(commands));
    }
    let name = root.file_name().filter(|name| !has_colon(Path::new(name)))?;
    let link = link_to(root.parent()?)?;
    let mut commands = commands.to_vec();
    for command in commands.iter_mut().filter(|command| is_venv(command)) {
        let of_root = command.arguments.iter_mut().filter(|argument| *argument == root);
        of_root.for_each(|argument| *argument = link.name.join(name).into_os_string());
    }
    Some([link.command].into_iter().chain(lines(&commands)).collect())
}

fn has_colon(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b':')
}

/// The help for an environment that venv does not make again.
fn not_by_venv(what: &str) -> Help {
    Help::new(format!(
        "{what}venv refuses a name with a colon: make a new environment under a name without one, with all its packages"
    ))
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
        _ => format!("the Python of {root} is missing, or this user cannot start it"),
    }
}

/// What is wrong with the Python of the virtual environment at this root, and the help that makes it again.
pub(in crate::check) fn restore_python(root: &Path) -> Option<(String, Help)> {
    let by_uv = packages::pip(Some(root), "check", []).is_some_and(|command| command.program == "uv");
    let missing = packages::restore_python(root, by_uv)?;
    let text = match &missing.other_version {
        Some(version) if missing.commands.is_empty() => format!(
            "no {version} is on PATH: install that, so that the environment's packages work again; or make a new environment \
             with all its packages"
        ),
        None => "make it again in place:".to_owned(),
        Some(version) => format!(
            "no {version} is on PATH: install that first, and run `{} check` again; or give the environment another \
             Python, and then all its packages again:",
            doctor()
        ),
    };
    let help = match restoring(&missing.commands, root) {
        Some(lines) => lines.into_iter().fold(Help::new(text), Help::command),
        None => not_by_venv(""),
    };
    Some((what_is_lost(&missing), help))
}
