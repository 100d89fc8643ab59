//! Commands as lines that a user pastes, each with what it needs: the administrator's rights, and an installer that is there.
//! Knows nothing of cuDNN.

use std::ffi::OsString;
use std::path::Path;

use crate::check::installers::{SystemTools, prepared};
use crate::platform::{belongs_to_root, is_of_root, is_root};
use cudnn_probe::Os;
use cudnn_probe::packages::{self, Command};

/// The commands as lines, with what they need before they can run on this machine.
pub(super) fn lines(commands: &[Command]) -> Vec<String> {
    prepared(commands, &SystemTools::here()).iter().map(line).collect()
}

pub(super) fn line(command: &Command) -> String {
    format!("{}{}{command}", sudo(command, is_root()), without_pips_variables(command))
}

/// Takes away variables that would have pip install elsewhere.
fn without_pips_variables(command: &Command) -> String {
    const NAMES: [&str; 4] = ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"];
    let is_pip = |word: &OsString| Path::new(word).file_name().is_some_and(|name| name == "pip" || name == "pip3");
    let has_pip = is_pip(&command.program) || command.arguments.iter().any(is_pip);
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !has_pip || command.program == "uv" || Os::HOST == Os::Windows {
        return String::new();
    }
    let names: Vec<String> = NAMES.iter().filter(|name| is_set(name)).map(|name| format!("-u {name} ")).collect();
    if names.is_empty() { String::new() } else { format!("env {}", names.concat()) }
}

/// System packages, and environments of root, need the administrator's rights. A container whose user is root often
/// lacks sudo.
pub(super) fn sudo(command: &Command, is_root: bool) -> &'static str {
    // The environment of `pip` is not known. Where it needs this option, it is the system's, and without the rights
    // pip would change the user's packages.
    let is_of_system =
        (command.program == "pip" || command.program == "pip3") && has_argument(command, "--break-system-packages");
    // What does not exist yet is made by who may write to the directory above it.
    let made = value(command, "--target").or_else(|| value(command, "venv").filter(|dir| dir.is_absolute()));
    let needs_root =
        command.needs_root() || environment(command).map_or(is_of_system, is_of_root) || made.is_some_and(is_of_root);
    if needs_root && !is_root && !packages::changes_packages_of_user(command) { "sudo " } else { "" }
}

/// The root of the environment that a command changes, if the command names it.
pub(super) fn environment(command: &Command) -> Option<&Path> {
    if value(command, "--target").is_some() || has_argument(command, "venv") {
        return None;
    }
    let program = Some(Path::new(&command.program)).filter(|program| program.is_absolute());
    let python = program.or_else(|| value(command, "--python"));
    // `env PYTHONPATH=PREFIX/lib/python3.12/site-packages python3.12 ..`
    let path = command.arguments.first().and_then(|first| first.to_str()?.strip_prefix("PYTHONPATH="));
    let of_path = path.and_then(|path| Path::new(path).ancestors().nth(3));
    value(command, "--prefix").or(of_path).or_else(|| python?.parent()?.parent())
}

fn has_argument(command: &Command, wanted: &str) -> bool {
    command.arguments.iter().any(|argument| argument == wanted)
}

/// The argument after this option, as a path.
fn value<'a>(command: &'a Command, option: &str) -> Option<&'a Path> {
    let at = command.arguments.iter().position(|argument| argument == option)?;
    command.arguments.get(at + 1).map(Path::new)
}

/// Does the directory belong to root, and the doctor's user is another?
pub(super) fn is_foreign(dir: &Path) -> bool {
    belongs_to_root(dir) && !is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::belongs_to_root;

    #[test]
    fn a_command_that_changes_what_belongs_to_root_needs_its_rights() {
        let command = |line: &str| {
            let mut words = line.split(' ');
            Command::new(words.next().unwrap_or_default(), words.collect::<Vec<_>>())
        };
        let own = std::env::temp_dir().join(format!("cudnn-doctor-own-{}", std::process::id()));
        let _ = std::fs::create_dir_all(own.join("bin"));
        let of_user = !belongs_to_root(&own);
        let own_target = format!("/usr/bin/python3 -I -m pip install --target {}/x/y z", own.display());
        let own_venv = format!("/usr/bin/python3 -m venv {}/x/y", own.display());
        let own_python = format!("{} -I -m pip install x", own.join("bin/python3").display());
        for (line, expected) in [
            ("/usr/bin/python3 -I -m pip install x", true),
            ("/usr/bin/python3 -E /usr/lib/python3/dist-packages/pip install x", true),
            ("/usr/bin/python3 -E /usr/lib/python3/dist-packages/pip install --user x", false),
            ("pip --python /usr/bin/python3 install x", true),
            ("uv pip install --python /usr/bin/python3 --link-mode copy x", true),
            ("env CONDA_PKGS_DIRS=/usr/x conda install --prefix /usr x", true),
            ("apt-get install x", true),
            (own_target.as_str(), !of_user),
            (own_venv.as_str(), !of_user),
            // Neither exists.
            ("/usr/bin/python3 -I -m pip install --target /opt/x/y z", true),
            ("/usr/bin/python3 -m venv /opt/x/y", true),
            ("/opt/x/y/bin/python3 -I -m pip install z", true),
            ("/usr/bin/python3 -I -m pip install --target /tmp/cudnn-doctor-nowhere/y z", false),
            ("pip install x", false),
            // Debian's Python has its packages below /usr/local, which has no Python.
            ("pip install --break-system-packages --force-reinstall x", true),
            ("env PYTHONPATH=/usr/lib/python3.11/site-packages /home/x/python3 /home/x/pip uninstall --yes x", true),
            ("env PYTHONPATH=/home/x /home/x/python3 /home/x/pip install --prefix /usr x", true),
            ("pip install --break-system-packages --user x", false),
            ("pip install --target /usr/lib --upgrade x", true),
            ("conda install x", false),
            (own_python.as_str(), !of_user),
        ] {
            assert_eq!(sudo(&command(line), false), if expected { "sudo " } else { "" }, "{line}");
            assert_eq!(sudo(&command(line), true), "", "{line}");
        }
        let _ = std::fs::remove_dir_all(&own);
    }
}
