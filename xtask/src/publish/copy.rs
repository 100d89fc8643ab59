//! Copies the checkout with all current files, committed or not, and its commit. cargo writes the commit and the path
//! in the repository into a package, and the index uses them to resolve a README's relative links.

use std::path::Path;
use std::process::Command;

use cudnn_os::files;

use super::output;
use crate::error::Result;

/// Copies the files that git tracks or does not ignore. Replaces an older copy.
pub(super) fn checkout(root: &Path, destination: &Path) -> Result<()> {
    let failed = |what: &str, path: &Path, error: std::io::Error| format!("cannot {what} {}: {error}", path.display());
    if destination.exists() {
        std::fs::remove_dir_all(destination).map_err(|error| failed("delete", destination, error))?;
    }
    output(git().args(["clone", "--quiet", "--no-checkout", "--shared"]).arg(root).arg(destination))?;
    let files = output(git().current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    for file in files.split_terminator('\0') {
        let (from, to) = (root.join(file), destination.join(file));
        // A file that was deleted without committing the deletion is still listed.
        let Ok(metadata) = std::fs::symlink_metadata(&from) else { continue };
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(|error| failed("create", parent, error))?;
        }
        let copied = if metadata.is_symlink() {
            std::fs::read_link(&from).and_then(|target| files::symlink(&target, &to))
        } else {
            std::fs::copy(&from, &to).map(drop)
        };
        copied.map_err(|error| failed("copy", &from, error))?;
    }
    // Updates the index, which cargo reads, without touching the files.
    output(git().current_dir(destination).args(["reset", "--quiet"])).map(drop)
}

fn git() -> Command {
    let mut command = Command::new("git");
    // A hook that runs this program sets these variables.
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    command
}
