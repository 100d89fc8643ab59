//! Checks through cargo whether a name is free on the package index.

use super::cargo;
use crate::error::Result;

/// Fails if another project owns the name. If a crate of this repository already owns it, a new version can be
/// published.
pub(super) fn check_name(name: &str, repository: Option<&str>) -> Result<()> {
    // Runs outside the workspace, where cargo would describe the local package.
    let elsewhere = std::env::temp_dir();
    let mut command = cargo();
    command.current_dir(elsewhere).args(["info", "--registry", "crates-io", name]);
    let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        if error.contains("could not find") {
            return Ok(());
        }
        return Err(format!("cannot query the package index for {name}:\n{error}").into());
    }
    let stated = text.lines().find_map(|line| line.strip_prefix("repository: "));
    if repository.is_some() && stated == repository {
        return Ok(());
    }
    let owner = stated.unwrap_or("which specifies no repository");
    Err(format!(
        "{name} on the package index is another project ({owner})\n\
         help: add a free name for it to RENAMED in xtask/src/publish/mod.rs; if that project is this one, pass its \
         address as `--repository`"
    )
    .into())
}
