//! Runs the programs of one line of a plan.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use cudnn_cli::command::{MOVE_ITEM, REMOVE_ITEM};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::remark;
use cudnn_os::child::{end_group, keep_from_interruption, keep_open};
use cudnn_os::interruption::requests;
use cudnn_os::rights::is_root;
use cudnn_rules::plan::Line;
use tempfile::NamedTempFile;

use super::installer::{started_by_env, variables_for};

/// The polling interval for a running program.
const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    /// Used when stdout carries a JSON document.
    Stderr,
}

pub(super) struct With<'a> {
    pub(super) output: Output,
    /// The lock that the programs hold until they exit.
    pub(super) lock: Option<&'a File>,
    /// pip's cache for this step, instead of the user's.
    pub(super) cache: Option<&'a Path>,
}

/// Runs the programs of a line until one fails.
pub(super) fn run(line: &Line, with: &With<'_>) -> std::result::Result<(), String> {
    line.commands().try_for_each(|command| program(command, with))
}

fn program(command: &cudnn_cli::command::Command, with: &With<'_>) -> std::result::Result<(), String> {
    if command.program == MOVE_ITEM || command.program == REMOVE_ITEM {
        let text = format!("$ErrorActionPreference = 'Stop'; {command}");
        let arguments = ["-NoProfile", "-NonInteractive", "-Command", &text];
        return program(&cudnn_cli::command::Command::new("powershell", arguments), with);
    }
    let name = command.program.to_string_lossy();
    if let Some((program, _)) = started_by_env(command).filter(|(program, _)| is_missing(program)) {
        return Err(not_found(&program.to_string_lossy()));
    }
    let mut child = Command::new(&command.program);
    set_variables(&mut child, command);
    use_cache(&mut child, with.cache);
    // apt-get must run without a terminal, and sudo drops variables.
    let is_apt = |program: &OsStr| program == "apt-get" || program == "apt-mark";
    if command.program == "sudo" {
        ask_for_password()?;
        child.arg("-n");
        if command.arguments.first().is_some_and(|program| is_apt(program)) {
            child.args(["env", "DEBIAN_FRONTEND=noninteractive"]);
        }
    } else if is_apt(&command.program) {
        child.env("DEBIAN_FRONTEND", "noninteractive");
    }
    child.args(&command.arguments).stdin(Stdio::null());
    if command.has("install") && (command.program == "apt-get" || command.has("apt-get")) {
        // Otherwise apt-get may remove packages outside the plan.
        child.arg("--no-remove");
    }
    keep_from_interruption(&mut child);
    with.lock.iter().for_each(|lock| keep_open(&mut child, lock));
    let status = run_to_end(&mut child, &name, with.output).map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_found(&name),
        _ => format!("{name} could not be started: {error}"),
    })?;
    if status.success() { Ok(()) } else { Err(format!("{name} {}", cudnn_os::child::failure(status))) }
}

/// Sets the variables of a program. Root's programs run in the root directory, because some installers read settings
/// from the working directory.
pub(super) fn set_variables(child: &mut Command, command: &cudnn_cli::command::Command) {
    child.env_clear().envs(variables_for(command));
    if is_root() {
        child.current_dir("/");
    }
}

pub(super) fn use_cache(child: &mut Command, cache: Option<&Path>) {
    if let Some(cache) = cache {
        child.env("PIP_CACHE_DIR", cache).env_remove("PIP_NO_CACHE_DIR");
    }
}

fn is_missing(program: &OsStr) -> bool {
    match program.to_str() {
        Some(name) if !name.contains('/') => !cudnn_cli::path::is_on_path(name),
        _ => !Path::new(program).exists(),
    }
}

fn not_found(name: &str) -> String {
    match name {
        "conda" => "conda, mamba or micromamba is not on PATH: put one of them on PATH and run `fix` again".to_owned(),
        _ => format!("{name} was not found"),
    }
}

/// Lets sudo request the password now, because it later runs in a background process group without access to the
/// terminal.
fn ask_for_password() -> std::result::Result<(), String> {
    let is_ready = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    if is_ready.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    match Command::new("sudo").arg("-v").status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("sudo denied access to this user".to_owned()),
        Err(error) => Err(format!("sudo could not be started: {error}")),
    }
}

/// Runs a program with the output redirected to a file, and copies the file to the output. With a pipe or a terminal,
/// an installer would fail halfway if the reader exits or the doctor is killed. The second Ctrl-C terminates the
/// program.
fn run_to_end(command: &mut Command, name: &str, output: Output) -> Result<ExitStatus> {
    let file = NamedTempFile::new()?;
    let written = file.reopen()?;
    let mut child = command.stdout(written.try_clone()?).stderr(written).spawn()?;
    let mut file = file.into_file();
    let mut noticed = 0;
    loop {
        // An early return would leave the program running.
        let ended = child.try_wait().or_else(|_| child.wait().map(Some))?;
        copy(&mut file, output);
        match (ended, requests()) {
            (Some(status), _) => return Ok(status),
            (None, now) if now > noticed && noticed > 0 => return end_group(&mut child),
            (None, now) if now > noticed => {
                remark(format_args!(
                    "Waiting for {} to finish this step. Press Ctrl-C again to end it.",
                    name.printable()
                ));
                noticed = now;
            }
            (None, _) => std::thread::sleep(INTERVAL),
        }
    }
}

/// Copies new data from the file. Write errors are ignored, because the reader may have exited.
fn copy(file: &mut File, output: Output) {
    let mut new = Vec::new();
    let _ = file.read_to_end(&mut new);
    let _ = match output {
        _ if new.is_empty() => Ok(()),
        Output::Stdout => std::io::stdout().write_all(&new).and_then(|()| std::io::stdout().flush()),
        Output::Stderr => std::io::stderr().write_all(&new),
    };
}
