//! The commands that repair or replace an installation. The commands come from the probe's `packages`, which knows the
//! installer that owns the files; this module chooses among them.

use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, Command, Component, DEFAULT_CUDA_MAJOR, Installer, Package};
use cudnn_probe::{InstallationReport, ProbeError, Version};

use super::finding::Help;
use crate::escape::Printable;
use crate::shell::{prepend_library_path, removal};

/// The directory that CUDA toolkits are installed in.
const CUDA_PREFIX: &str = "/usr/local";

/// The help for a file that cannot be used, if there is any.
pub(super) fn repair(error: &ProbeError, report: Option<&InstallationReport>) -> Option<Help> {
    let is_damage = matches!(
        error,
        ProbeError::BrokenLink { .. }
            | ProbeError::SonameLinkMissing { .. }
            | ProbeError::NotRegularFile { .. }
            | ProbeError::NotElf { .. }
            | ProbeError::Truncated { .. }
            | ProbeError::Malformed { .. }
            | ProbeError::WrongSoname { .. }
    );
    match report.filter(|report| is_damage && report.package.is_some()) {
        Some(report) => Some(reinstall(report)),
        None => error.help().map(Help::from),
    }
}

/// Replaces damaged or missing files, or files of two releases or two CUDA majors, by those of one release.
pub(super) fn reinstall(report: &InstallationReport) -> Help {
    if !report.other_packages.is_empty() {
        return replace(report);
    }
    match report.package.as_ref().and_then(|package| Some((package, packages::reinstall(package)?))) {
        Some((package, command)) => with_commands(format!("reinstall {}:", package.name), &[command]),
        None => by_hand(report),
    }
}

/// Several packages own the directory: removes all, installs one.
fn replace(report: &InstallationReport) -> Help {
    let packages = all_packages(report);
    let component = packages.first().and_then(Package::component).unwrap_or(Component::Cudnn);
    let commands = packages::replace(&packages, component, cuda_major(report));
    if commands.is_empty() {
        return by_hand(report);
    }
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let text = format!("{} own the same files: remove all of them, then install one", names.join(" and "));
    with_commands(text, &commands)
}

/// The help if no package manager owns the files: they were copied, or an application ships them.
fn by_hand(report: &InstallationReport) -> Help {
    let dir = report.dir.printable();
    match &report.package {
        Some(Package { installer: Installer::Pip | Installer::Application, name, .. }) => {
            Help::new(format!("reinstall {name}, which ships this cuDNN"))
        }
        Some(Package { installer: Installer::Archive, name, .. }) => {
            Help::new(format!("unpack {name} again, or unpack another release elsewhere and use that"))
        }
        _ => Help::new(format!("remove the files of cuDNN 9 from {dir}, then copy all files of one release there:"))
            .command(removal(&report.dir)),
    }
}

/// Installs the full cuDNN: in place of this one, or if there is none.
pub(super) fn install(report: Option<&InstallationReport>) -> Help {
    let cuda_major = report.map_or(DEFAULT_CUDA_MAJOR, cuda_major);
    let commands: Vec<Command> = match report.map(all_packages) {
        Some(packages) if packages.iter().any(Package::is_cudnn) => {
            packages::replace(&packages, Component::Cudnn, cuda_major)
        }
        _ => packages::install(Component::Cudnn, cuda_major, Installer::Pip).into_iter().collect(),
    };
    with_commands("install the full cuDNN in the program's environment:", &commands)
}

/// Installs a newer release, or one for another CUDA major.
pub(super) fn upgrade(report: &InstallationReport, minimum: Option<Version>, cuda_major: Option<u32>) -> Help {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let other_cuda = cuda_major.filter(|major| Some(*major) != report.cuda_major);
    if let (Some(package), Some(cuda_major)) = (package, other_cuda) {
        let component = package.component().unwrap_or(Component::Cudnn);
        let commands = packages::replace(&all_packages(report), component, cuda_major);
        if !commands.is_empty() {
            return with_commands(format!("replace it by a cuDNN for CUDA {cuda_major}:"), &commands);
        }
    }
    let version = minimum.map(|version| version.to_string());
    if let (Some(package), Some(version)) = (package, &version)
        && let Some(command) = packages::upgrade(package, version)
    {
        return with_commands(format!("upgrade {} to {version} or newer:", package.name), &[command]);
    }
    let wheel = Component::Cudnn.wheel(cuda_major.or(report.cuda_major).unwrap_or(DEFAULT_CUDA_MAJOR));
    let spec = version.as_ref().map_or(wheel.clone(), |version| format!("{wheel}>={version}"));
    let wanted = version.map_or("another cuDNN".into(), |version| format!("cuDNN {version} or newer"));
    let text = match &report.package {
        Some(package) => format!("{} decides which cuDNN it ships; to install {wanted} beside it:", package.name),
        None => format!("install {wanted} in the program's environment:"),
    };
    with_commands(text, &[Command::new("pip", ["install".to_owned(), spec])])
}

/// Installs exactly this release.
pub(super) fn install_version(report: &InstallationReport, wheel_version: &str, max_cuda_major: u32) -> Help {
    let wheel = Component::Cudnn.wheel(cuda_major(report).min(max_cuda_major));
    let command = Command::new("pip", ["install".to_owned(), format!("{wheel}=={wheel_version}")]);
    with_commands("install that release in the program's environment:", &[command])
}

/// Installs a library of CUDA where this cuDNN finds it.
pub(super) fn cuda_library(report: &InstallationReport, name: &str, cuda_major: u32) -> Help {
    let Some((component, _)) = Component::from_soname(name) else { return Help::new(format!("install {name}")) };
    if let Some(dir) = toolkit_with(name, cuda_major)
        && let Some(line) = prepend_library_path(&dir)
    {
        return Help::new(format!("it is in {}: have ld.so search that directory:", dir.printable())).command(line);
    }
    // A wheel of cuDNN finds the wheels beside it by its run path; a system package finds the system's libraries.
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let command = package
        .and_then(|package| packages::install_beside(package, component, cuda_major, report.cuda_minor))
        .map(|command| {
            with_commands(format!("install {component} for CUDA {cuda_major} beside this cuDNN:"), &[command])
        });
    command.unwrap_or_else(|| {
        Help::new(format!(
            "install the CUDA {cuda_major} toolkit, which contains it, and add its library directory to LD_LIBRARY_PATH"
        ))
    })
}

/// The library directory of an installed toolkit that has this library.
fn toolkit_with(name: &str, cuda_major: u32) -> Option<PathBuf> {
    let is_toolkit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "cuda" || name.starts_with(&format!("cuda-{cuda_major}"))
    };
    let entries = std::fs::read_dir(Path::new(CUDA_PREFIX)).ok()?.flatten().map(|entry| entry.path());
    let mut dirs: Vec<PathBuf> = entries.filter(is_toolkit).map(|root| root.join("lib64")).collect();
    dirs.sort();
    dirs.into_iter().find(|dir| dir.join(name).exists())
}

fn all_packages(report: &InstallationReport) -> Vec<Package> {
    report.package.iter().chain(&report.other_packages).cloned().collect()
}

fn cuda_major(report: &InstallationReport) -> u32 {
    report.cuda_major.unwrap_or(DEFAULT_CUDA_MAJOR)
}

/// System packages need the administrator's rights.
fn with_commands(text: impl Into<String>, commands: &[Command]) -> Help {
    commands.iter().fold(Help::new(text), |help, command| {
        let sudo = if command.needs_root() { "sudo " } else { "" };
        help.command(format!("{sudo}{command}"))
    })
}
