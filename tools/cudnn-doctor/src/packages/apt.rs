//! The commands by which apt-get changes the system's packages.

use cudnn_probe::facts::PathFacts;
use std::path::Path;

use super::command::Command;
use super::dirs::entries;

/// apt-get with this action: it asks nothing, since the next line that is pasted would be the answer.
pub(super) fn apt_get(action: &str) -> Command {
    Command::new("apt-get", [action, "-y"])
}

/// The command that installs Python's venv and pip, if this system has apt-get.
pub(crate) fn python_tools() -> Option<Command> {
    Path::new("/usr/bin/apt-get").leads_to_file().then(|| apt_get("install").and(["python3-venv"]))
}

/// The commands, after one that gives apt-get its lists of packages if it has none, as in most images of containers.
pub(crate) fn with_lists(commands: Vec<Command>) -> Vec<Command> {
    let needs_lists = |command: &Command| command.program == "apt-get" && command.has("install");
    // They may be compressed.
    let is_list = |file: std::path::PathBuf| file.to_string_lossy().contains("_Packages");
    let lacks_lists = commands.iter().any(needs_lists) && !entries(Path::new("/var/lib/apt/lists")).any(is_list);
    let update = lacks_lists.then(|| Command::new("apt-get", ["update"]));
    update.into_iter().chain(commands).collect()
}
