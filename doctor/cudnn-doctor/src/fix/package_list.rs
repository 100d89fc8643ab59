//! Writes a list of the packages before a step, for a person who wants to restore them.

use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudnn_os::rights::{create_own_dir, is_root};
use cudnn_rules::packages::{Site, data_dir};

use super::foreign::changeable_by_others;
use super::installed::InstalledPackages;
use super::run::set_variables;

/// Writes a list of the packages at this place to a new file. If the installer fails, for example because pip is
/// missing, the list contains the records. Returns `None` for places without packages and for installers without lists.
pub(super) fn write(site: &Site, installed: Option<&InstalledPackages>) -> Result<Option<PathBuf>> {
    let recorded = || match site {
        Site::Conda(_) | Site::System | Site::NewEnvironment { .. } => None,
        _ => installed.map(|installed| installed.requirements().into_bytes()),
    };
    let text = site.list().and_then(|command| output_of(&command)).or_else(recorded).filter(|text| !text.is_empty());
    // Root's HOME may belong to another user.
    let dir = data_dir().filter(|dir| !is_root() || changeable_by_others(dir).is_none());
    let of_user = |text: &[u8]| write_into(&dir?.join("cudnn-doctor-packages"), text).ok();
    text.map(|text| of_user(&text).map_or_else(|| write_into(&private_dir()?, &text), Ok)).transpose()
}

fn write_into(dir: &Path, text: &[u8]) -> Result<PathBuf> {
    create_own_dir(dir)?;
    let mut file = tempfile::Builder::new().prefix("before-").suffix(".txt").tempfile_in(dir)?;
    file.write_all(text)?;
    Ok(file.keep().map_err(|error| error.error)?.1)
}

fn private_dir() -> Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix("cudnn-doctor-packages-").tempdir()?.keep())
}

fn output_of(command: &cudnn_cli::command::Command) -> Option<Vec<u8>> {
    let mut child = Command::new(&command.program);
    set_variables(&mut child, command);
    let output = child.args(&command.arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}
