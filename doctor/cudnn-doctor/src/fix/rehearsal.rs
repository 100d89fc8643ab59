//! Checks that pip or uv can install the packages of a step, before the step removes the old ones.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cudnn_cli::escape::Printable;
use cudnn_cli::subprocess::Spinner;
use cudnn_os::child::keep_from_interruption;
use cudnn_rules::plan::Step;
use tempfile::TempDir;

use super::installer::{PackageManager, variables};
use super::run::{set_variables, use_cache};

const DRY_RUN: &str = "--dry-run";

/// The polling interval for a running installer.
const INTERVAL: Duration = Duration::from_millis(20);

/// Tries the installations that follow a removal with `--dry-run`, and returns the reason if the installer fails.
/// Returns the cache with pip's downloads if the user has disabled caching. Programs started by sudo are skipped,
/// because only the step requests the password.
pub(super) fn rehearse(step: &Step) -> Result<Option<TempDir>, String> {
    let is_of_pip = |command: &&cudnn_cli::command::Command| {
        matches!(PackageManager::of(command), Some(PackageManager::Pip | PackageManager::Uv))
    };
    let mut commands = step.lines.iter().flat_map(|line| line.commands()).filter(is_of_pip);
    if !commands.by_ref().any(|command| command.has("uninstall")) {
        return Ok(None);
    }
    let has_none = variables(&[]).contains_key(OsStr::new("PIP_NO_CACHE_DIR"));
    let cache = if has_none { tempfile::Builder::new().prefix("cudnn-doctor-pip-").tempdir().ok() } else { None };
    let path = cache.as_ref().map(TempDir::path);
    commands.filter(|command| command.has("install")).try_for_each(|command| try_to_install(command, path))?;
    Ok(cache)
}

fn try_to_install(command: &cudnn_cli::command::Command, cache: Option<&Path>) -> Result<(), String> {
    let mut child = Command::new(&command.program);
    set_variables(&mut child, command);
    use_cache(&mut child, cache);
    keep_from_interruption(&mut child);
    for argument in &command.arguments {
        child.arg(argument);
        if argument == "install" {
            child.arg(DRY_RUN);
        }
    }
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| child.stdin(Stdio::null()).output());
        let mut spinner = Spinner::new(true);
        while !running.is_finished() {
            spinner.turn(|| "trying the installation");
            std::thread::sleep(INTERVAL);
        }
        running.join()
    });
    // The step reports this error with a better message.
    let Ok(Ok(output)) = output else { return Ok(()) };
    let text = String::from_utf8_lossy(&output.stderr);
    // pip before 22.2 rejects the option by name. A missing pip causes another error, and the step installs pip.
    let is_reason = |line: &&str| line.starts_with("ERROR:") || line.starts_with("error:") || line.contains('×');
    if output.status.success() || text.contains(DRY_RUN) || !text.lines().any(|line| is_reason(&line)) {
        return Ok(());
    }
    // pip prints the reason last, and uv explains it in more lines.
    let reason: Vec<&str> = text.lines().skip_while(|line| !is_reason(line)).map(str::trim).collect();
    let reason = reason.join(" ").printable().to_string();
    Err(format!("nothing was removed, because the new packages cannot be installed: {reason}"))
}
