//! Runs the programs of one line of a plan.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use cudnn_os::child::keep_from_interruption;
use tempfile::NamedTempFile;

use super::snapshot::Snapshot;
use crate::packages;
use crate::plan::{Line, REMOVE_ITEM};

/// The time between two looks at a program that runs.
const INTERVAL: Duration = Duration::from_millis(20);

/// Where the output of installers goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// To stdout.
    Stdout,
    /// To stderr: stdout is for a document.
    Stderr,
}

/// Runs the programs of a line, while the files that they change are saved.
///
/// # Errors
/// The first one that failed, and how.
pub(super) fn run(line: &Line, output: Output, snapshot: Option<&Snapshot>) -> std::result::Result<(), String> {
    match line {
        Line::Run(commands) => commands.iter().try_for_each(|command| program(command, output, snapshot)),
        Line::Shell(_) => Ok(()),
    }
}

fn program(
    command: &packages::Command,
    output: Output,
    snapshot: Option<&Snapshot>,
) -> std::result::Result<(), String> {
    if command.program == REMOVE_ITEM {
        let text = format!("$ErrorActionPreference = 'Stop'; {command}");
        let arguments = ["-NoProfile", "-NonInteractive", "-Command", &text];
        return program(&packages::Command::new("powershell", arguments), output, snapshot);
    }
    let name = command.program.to_string_lossy();
    let mut child = Command::new(&command.program);
    // apt-get may ask on the terminal, which it does not have. sudo passes on no variables of this process.
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
    child.args(&command.arguments).stdin(snapshot.and_then(Snapshot::input).unwrap_or_else(Stdio::null));
    if command.has("install") && (command.program == "apt-get" || command.has("apt-get")) {
        // Otherwise apt-get removes packages that conflict with the new one. The plan names all that may be removed.
        child.arg("--no-remove");
    }
    keep_from_interruption(&mut child);
    let status = run_to_end(&mut child, output).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{name} was not found"),
        _ => format!("{name} could not be started: {error}"),
    })?;
    if status.success() { Ok(()) } else { Err(format!("{name} {}", cudnn_os::child::failure(status))) }
}

/// Has sudo ask for the password, if it needs one: later it is in a process group in the background, which may not read the
/// terminal.
fn ask_for_password() -> std::result::Result<(), String> {
    let is_ready = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    if is_ready.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    match Command::new("sudo").arg("-v").status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("sudo gives this user no rights".to_owned()),
        Err(error) => Err(format!("sudo could not be started: {error}")),
    }
}

/// Runs a program whose output is a file, which is copied while it runs. An installer whose output is a pipe or a terminal
/// fails in the middle of its work when the reader goes away, or when the doctor is killed.
fn run_to_end(command: &mut Command, output: Output) -> Result<ExitStatus> {
    let file = NamedTempFile::new()?;
    let written = file.reopen()?;
    let mut child = command.stdout(written.try_clone()?).stderr(written).spawn()?;
    let mut file = file.into_file();
    loop {
        // An error would leave it running.
        let ended = child.try_wait().or_else(|_| child.wait().map(Some))?;
        copy(&mut file, output);
        match ended {
            Some(status) => return Ok(status),
            None => std::thread::sleep(INTERVAL),
        }
    }
}

/// Copies what is new in the file. Nobody may read it.
fn copy(file: &mut File, output: Output) {
    let mut new = Vec::new();
    let _ = file.read_to_end(&mut new);
    let _ = match output {
        _ if new.is_empty() => Ok(()),
        Output::Stdout => std::io::stdout().write_all(&new).and_then(|()| std::io::stdout().flush()),
        Output::Stderr => std::io::stderr().write_all(&new),
    };
}
