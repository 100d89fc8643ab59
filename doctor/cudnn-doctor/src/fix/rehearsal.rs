//! Checks that pip or uv can install the packages of a step, before the step removes the old ones.

use std::process::{Command, Stdio};

use cudnn_cli::escape::Printable;
use cudnn_os::child::keep_from_interruption;
use cudnn_rules::plan::Step;

use super::installer::PackageManager;
use super::run::protect_root;

const DRY_RUN: &str = "--dry-run";

/// Tries the installations that follow a removal, without changing anything. Leaves out programs that sudo starts, because
/// only the step prompts for the password.
///
/// # Errors
/// The installer's reason, for example a missing network, or a constraint.
pub(super) fn rehearse(step: &Step) -> Result<(), String> {
    let is_of_pip = |command: &&cudnn_cli::command::Command| {
        matches!(PackageManager::of(command), Some(PackageManager::Pip | PackageManager::Uv))
    };
    let mut commands = step.lines.iter().flat_map(|line| line.commands()).filter(is_of_pip);
    if !commands.by_ref().any(|command| command.has("uninstall")) {
        return Ok(());
    }
    commands.filter(|command| command.has("install")).try_for_each(try_to_install)
}

fn try_to_install(command: &cudnn_cli::command::Command) -> Result<(), String> {
    let mut child = Command::new(&command.program);
    protect_root(&mut child, command);
    keep_from_interruption(&mut child);
    for argument in &command.arguments {
        child.arg(argument);
        if argument == "install" {
            child.arg(DRY_RUN);
        }
    }
    // A program that cannot be started fails in the step, too, with a better message.
    let Ok(output) = child.stdin(Stdio::null()).output() else { return Ok(()) };
    let text = String::from_utf8_lossy(&output.stderr);
    // pip before 22.2 does not know the option, and names it. Without pip, Python has another error, and the step adds pip.
    let is_reason = |line: &&str| line.starts_with("ERROR:") || line.starts_with("error:") || line.contains('×');
    if output.status.success() || text.contains(DRY_RUN) || !text.lines().any(|line| is_reason(&line)) {
        return Ok(());
    }
    // pip ends with the reason, and uv explains it in further lines.
    let reason: Vec<&str> = text.lines().skip_while(|line| !is_reason(line)).map(str::trim).collect();
    let reason = reason.join(" ").printable().to_string();
    Err(format!("nothing was removed, because the new packages cannot be installed: {reason}"))
}
