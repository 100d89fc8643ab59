//! The Python of a virtual environment that cannot be used: what is lost, and the commands that make it again.

use std::path::Path;

use cudnn_probe::packages::{self, Command, MissingPython, PythonProblem, clean_cache};

use super::lines::{is_foreign, line};
use crate::check::finding::Help;
use crate::check::installers::{SystemTools, prepared};
use crate::escape::Printable;
use crate::shell::{SEPARATOR, doctor, link_to};

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
        clean_cache(&command).iter().chain([&command]).map(line).fold(help, Help::command)
    })
}

/// Returns the lines that make the Python of the environment at this root again. venv refuses a root that contains the
/// separator of PATH. If only a parent directory contains it, the lines use a link to that directory; `None` means that no
/// link can help.
fn restoring(commands: &[Command], root: &Path) -> Option<Vec<String>> {
    let is_venv = |command: &Command| ["-m", "venv"].iter().all(|word| command.arguments.iter().any(|one| one == word));
    if commands.is_empty() {
        return Some(Vec::new());
    }
    if !commands.iter().any(is_venv) || !has_path_separator(root) {
        return Some(vec![in_one_line(commands, root)]);
    }
    let name = root.file_name().filter(|name| !has_path_separator(Path::new(name)))?;
    let link = link_to(root.parent()?)?;
    let mut commands = commands.to_vec();
    let arguments = commands.iter_mut().filter(|command| is_venv(command)).flat_map(|command| &mut command.arguments);
    for argument in arguments {
        if let Ok(below) = Path::new(argument).strip_prefix(root) {
            // A path that is joined with nothing would end in a slash.
            let named = link.name.join(name);
            *argument = if below == Path::new("") { named } else { named.join(below) }.into_os_string();
        }
    }
    Some(vec![link.command, in_one_line(&commands, root)])
}

/// These commands in one line, so that each runs only after the success of the one before it, also where a shell reads on
/// after a failure.
fn in_one_line(commands: &[Command], root: &Path) -> String {
    let sudo = if is_foreign(root) { "sudo " } else { "" };
    let of_root = |command: &Command| {
        if command.needs_root() { line(command) } else { format!("{sudo}{command}") }
    };
    prepared(commands, &SystemTools::here()).iter().map(of_root).collect::<Vec<_>>().join(" && ")
}

/// On Windows, the colon after the letter of a drive separates nothing.
fn has_path_separator(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&(SEPARATOR as u8))
}

/// The help for an environment that venv does not make again.
fn not_by_venv(what: &str) -> Help {
    let separator = if SEPARATOR == ';' { "semicolon" } else { "colon" };
    Help::new(format!(
        "{what}venv refuses a name with a {separator}: make a new environment under a name without one, with all its \
         packages"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_that_no_command_restores_gets_none() {
        assert_eq!(restoring(&[], Path::new("/opt/env")), Some(Vec::new()));
    }
}
