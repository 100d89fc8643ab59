//! The help with commands of package managers. Knows what may keep such a command from working, and nothing of why it is
//! needed.

use std::path::Path;

use cudnn_probe::InstallationReport;
use cudnn_probe::packages::{self, Command, DEFAULT_CUDA_MAJOR, Package};

use super::lines::{line, lines};
use super::python::with_python;
use crate::check::finding::{Effect, Help};
use crate::escape::Printable;
use crate::platform::belongs_to_root;
use crate::shell::doctor;

/// The help with these commands, each with what it needs: an environment's pip, and the administrator's rights.
pub(crate) fn with_commands(text: impl Into<String>, commands: &[Command]) -> Help {
    let effect = match commands {
        [] => Effect::Other,
        commands if move_wheels(commands) => Effect::OtherDir,
        _ => Effect::SameDir,
    };
    if let Some(root) = commands.iter().find_map(packages::closed_python) {
        return with_closed_python(&root, &text.into(), commands).effect(effect);
    }
    let missing = commands.iter().find_map(packages::missing_python);
    if let Some(missing) = missing {
        return with_python(missing, &text.into(), commands).effect(effect);
    }
    lines(commands).into_iter().fold(Help::new(text).effect(effect), Help::command)
}

/// The help with these commands, for an environment whose Python another user may read, and this one may not.
fn with_closed_python(root: &Path, text: &str, commands: &[Command]) -> Help {
    let what = format!("this user may not read the Python of {}", root.printable());
    if belongs_to_root(root) {
        return commands.iter().fold(Help::new(format!("{what}; {text}")), |help, command| help.command(line(command)));
    }
    Help::new(format!("{what}: as a user who may, run `{} check` again, which then has the commands", doctor()))
}

/// The help whose commands change the version of these packages or remove them: first lifts what forbids that.
pub(super) fn change<'a>(
    packages: impl IntoIterator<Item = &'a Package>,
    text: impl Into<String>,
    commands: &[Command],
) -> Help {
    let mut text = text.into();
    let mut all = Vec::new();
    for package in packages {
        let Some(command) = packages::lift_hold(package) else { continue };
        let name = package.name.printable();
        text = format!("{name} is held (`apt-mark hold`): to change it, allow that first; {text}");
        all.push(command);
    }
    all.extend_from_slice(commands);
    with_commands(text, &all)
}

/// Do these commands replace a wheel of cuDNN by one whose files are in another directory: JIT-only by full?
fn move_wheels(commands: &[Command]) -> bool {
    let has = |command: &Command, text: &str| command.arguments.iter().any(|argument| argument == text);
    let removal = |command: &&Command| has(command, "uninstall");
    let names = |command: &Command, prefix: &str| {
        command.arguments.iter().any(|argument| argument.to_str().is_some_and(|text| text.starts_with(prefix)))
    };
    let [jit, full] = ["nvidia-cudnn-jit-", "nvidia-cudnn-cu"];
    [(jit, full), (full, jit)].into_iter().any(|(old, new)| {
        let is_removed = |name: &str| commands.iter().filter(removal).any(|command| names(command, name));
        let is_installed = |name: &str| commands.iter().any(|command| has(command, "install") && names(command, name));
        is_removed(old) && is_installed(new) && !is_installed(old)
    })
}

pub(super) fn all_packages(report: &InstallationReport) -> Vec<Package> {
    report.package.iter().chain(&report.other_packages).cloned().collect()
}

pub(super) fn names(packages: &[Package]) -> String {
    let mut names: Vec<String> = packages.iter().map(|package| package.name.printable()).collect();
    names.dedup();
    names.join(" and ")
}

pub(super) fn cuda_major(report: &InstallationReport) -> u32 {
    report.cuda_major.filter(|major| packages::CUDA_MAJORS.contains(major)).unwrap_or(DEFAULT_CUDA_MAJOR)
}

#[cfg(test)]
mod tests {
    use cudnn_probe::packages::Installer;

    use super::*;

    #[test]
    fn a_held_package_is_released_before_it_is_changed() {
        let mut package = Package::new(Installer::Dpkg, "libcudnn9-cuda-12", Some("9.10.2.21-1"), "/");
        let lines = |package: &Package| {
            let command = packages::upgrade(package, "9.19.0").into_iter().collect::<Vec<_>>();
            let help = change([package], "upgrade it:", &command);
            (help.text, help.commands.join("\n").replace("sudo ", ""))
        };
        let upgrade = "apt-get install -y --only-upgrade libcudnn9-cuda-12";
        assert_eq!(lines(&package), ("upgrade it:".to_owned(), upgrade.to_owned()));
        package.is_held = true;
        let (text, commands) = lines(&package);
        assert!(text.contains("is held") && text.ends_with("upgrade it:"), "{text}");
        assert_eq!(commands, format!("apt-mark unhold libcudnn9-cuda-12\n{upgrade}"));
    }
}
