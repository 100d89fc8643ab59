//! Builds the uv commands that change uv's own environments.

use std::ffi::OsString;
use std::path::Path;

use cudnn_cli::command::Command;
use cudnn_cli::path::is_on_path;
use cudnn_frameworks::normalized;

use super::PackageChange;
use super::environment::{has_pip, python_in, setting};
use super::requirement::{is_satisfied_by, package_name};

/// Returns whether uv should change the packages: uv created the environment, and pip is not installed.
pub(crate) fn serves(root: &Path) -> bool {
    setting(root, "uv").is_some() && !has_pip(root) && is_on_path("uv")
}

/// Returns the uv command for a pip action. uv does not prompt. By default, it installs files as links to its cache: a file
/// that is damaged in place is then damaged in the cache too, and would be installed again.
pub(super) fn pip(root: &Path, action: &str, arguments: Vec<OsString>) -> Vec<Command> {
    let options = if action == "install" { &["--link-mode", "copy", "--no-cache"][..] } else { &[] };
    let arguments = arguments.into_iter().filter(|argument| argument != "--yes");
    vec![
        Command::new("uv", ["pip", action, "--python"])
            .and([python_in(root)])
            .and(options)
            .and(arguments)
            .changing(root),
    ]
}

/// Returns the command by which the uv project of this environment would require what the change installs. `None` if the
/// lock file of the project contains these versions already. `uv sync` removes all packages that the project does not
/// require, and installs the versions of the lock file.
pub(crate) fn keep_in_project(change: &PackageChange) -> Option<Command> {
    const MAX_LEN: u64 = 16 << 20;
    let root = change.site.dir().filter(|root| root.ends_with(".venv") && setting(root, "uv").is_some())?;
    let project = root.parent()?;
    let lock = String::from_utf8(cudnn_probe::read_bounded(&project.join("uv.lock"), MAX_LEN).ok()?).ok()?;
    let is_locked = |wanted: &&String| {
        let version = locked_version(&lock, package_name(wanted));
        version.is_some_and(|version| is_satisfied_by(wanted, version))
    };
    let missing: Vec<&String> = change.install.iter().filter(|wanted| !is_locked(wanted)).collect();
    (!missing.is_empty()).then(|| Command::new("uv", ["add", "--project"]).and([project]).and(missing))
}

/// Returns the version of a package in a lock file of uv.
fn locked_version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str, key: &str| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"');
    let mut lines = lock.lines();
    lines.find(|line| value(line, "name") == Some(&normalized(name)))?;
    value(lines.next()?, "version")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::packages::Site;

    #[test]
    fn a_project_must_require_what_its_lock_file_does_not_contain() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(".venv");
        std::fs::create_dir(&root).unwrap();
        let lock = "version = 1\n\n[[package]]\nname = \"nvidia-cudnn-cu12\"\nversion = \"9.10.2.21\"\n";
        std::fs::write(dir.path().join("uv.lock"), lock).unwrap();
        let kept = |settings: &str, install: &[&str]| {
            std::fs::write(root.join("pyvenv.cfg"), settings).unwrap();
            let install = install.iter().map(|one| (*one).to_owned());
            let command = keep_in_project(&PackageChange::of(Site::Environment(root.clone())).install(install));
            command.map(|command| command.to_string().replace(dir.path().to_str().unwrap(), "DIR"))
        };
        for (install, expected) in [
            (&["nvidia-cudnn-cu12==9.10.2.21"][..], None),
            (&["nvidia-cudnn-cu12>=9.8"], None),
            (&["nvidia-cudnn-cu12>=9.19"], Some("uv add --project DIR 'nvidia-cudnn-cu12>=9.19'")),
            (
                &["nvidia-cudnn-cu12>=9.8", "nvidia-cuda-nvrtc-cu12"],
                Some("uv add --project DIR nvidia-cuda-nvrtc-cu12"),
            ),
        ] {
            assert_eq!(kept("uv = 0.9.0\n", install).as_deref(), expected, "{install:?}");
        }
        assert_eq!(kept("home = /usr/bin\n", &["nvidia-cuda-nvrtc-cu12"]), None);
    }
}
