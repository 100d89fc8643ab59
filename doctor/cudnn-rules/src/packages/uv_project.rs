//! Recognizes changes that `uv sync` would undo in the environment of a uv project.

use cudnn_cli::command::Command;
use cudnn_frameworks::{allows, normalized};
use cudnn_probe::python::setting;

use super::change::PackageChange;
use super::requirement::package_name;

/// Returns the command that makes the uv project of this environment require the packages that the change installs,
/// unless the lock file contains them. `uv sync` removes all other packages, and installs the versions of the lock
/// file.
pub(crate) fn keep_in_project(change: &PackageChange) -> Option<Command> {
    const MAX_LEN: u64 = 16 << 20;
    let root = change.site.dir().filter(|root| root.ends_with(".venv") && setting(root, "uv").is_some())?;
    let project = root.parent()?;
    let lock = String::from_utf8(cudnn_probe::read_bounded(&project.join("uv.lock"), MAX_LEN).ok()?).ok()?;
    let is_locked = |wanted: &&String| {
        let version = locked_version(&lock, package_name(wanted));
        version.is_some_and(|version| allows(wanted, version))
    };
    let missing: Vec<&String> = change.install.iter().filter(|wanted| !is_locked(wanted)).collect();
    (!missing.is_empty()).then(|| Command::new("uv", ["add", "--project"]).and([project]).and(missing))
}

fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str, key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
    let mut lines = lock.lines();
    lines.find(|line| value(line, "name") == Some(&normalized(name)))?;
    value(lines.next()?, "version")
}

#[cfg(test)]
mod tests;
