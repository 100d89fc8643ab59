//! Builds the apt-get commands that change system packages.

use cudnn_cli::command::Command;
use cudnn_frameworks::installation::system_package;
use cudnn_probe::Host;
use cudnn_probe::facts::PathFacts;
use std::path::Path;

use super::dirs::entries;
use super::requirement::package_name;

/// Returns an apt-get command with `-y`. Otherwise, apt-get would read the next pasted line as the answer to a prompt.
pub(super) fn apt_get(action: &str) -> Command {
    Command::new("apt-get", [action, "-y"])
}

/// Returns a requirement as apt-get accepts it: an exact version, or the name for the newest one.
pub(super) fn argument(requirement: &str) -> &str {
    let name = package_name(requirement);
    if requirement.starts_with(&format!("{name}=")) { requirement } else { name }
}

/// Returns the requirement of the installed version of a package that the user holds (`apt-mark hold`).
pub(super) fn held(name: &str) -> Option<String> {
    let (package, _) = system_package(name, &Host::current())?;
    package.version.filter(|_| package.is_held).map(|version| format!("{name}={version}"))
}

/// Returns the command that holds packages again, if there are any.
pub fn hold(names: &[String]) -> Option<Command> {
    (!names.is_empty()).then(|| Command::new("apt-mark", ["hold"]).and(names))
}

pub(super) fn list() -> Command {
    Command::new("dpkg-query", ["--show", "--showformat", "${Package}=${Version}\n"])
}

/// Returns the command that installs packages in earlier versions.
pub fn restore(packages: &[String]) -> Command {
    apt_get("install").and(["--allow-downgrades"]).and(packages)
}

/// Returns the command that installs the packages that Debian's Python needs to create environments with pip.
pub(super) fn python_tools() -> Option<Command> {
    install("python3-venv")
}

pub(super) fn python_pip() -> Option<Command> {
    install("python3-pip")
}

fn install(package: &str) -> Option<Command> {
    Path::new("/usr/bin/apt-get").leads_to_file().then(|| apt_get("install").and([package]))
}

/// Prepends `apt-get update` to the commands if the package lists are missing, as in most container images.
pub(crate) fn with_lists(commands: Vec<Command>) -> Vec<Command> {
    let needs_lists = |command: &Command| command.program == "apt-get" && command.has("install");
    // The lists may be compressed.
    let is_list = |file: std::path::PathBuf| file.to_string_lossy().contains("_Packages");
    let lacks_lists = commands.iter().any(needs_lists) && !entries(Path::new("/var/lib/apt/lists")).any(is_list);
    let update = lacks_lists.then(|| Command::new("apt-get", ["update"]));
    update.into_iter().chain(commands).collect()
}
