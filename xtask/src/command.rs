//! Results, the root of the workspace, and other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Returns the root of the workspace in which `cargo xtask` runs, by cargo's variable at run time. The path at compile
/// time may belong to another checkout.
pub(crate) fn root() -> Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.as_deref().and_then(|package| package.parent());
    let root = root.ok_or("CARGO_MANIFEST_DIR is not set; run this program through `cargo xtask`")?;
    Ok(root.canonicalize()?)
}

/// Returns cargo in a directory.
pub(crate) fn cargo(dir: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(dir);
    cargo
}

/// Runs a program, which must succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} exited with {status}").into()) }
}

/// Runs a program, which must succeed, and returns the output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
