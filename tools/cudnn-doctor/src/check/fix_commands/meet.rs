//! Another cuDNN in place of the one that is there, because a program requires what that is not.

use std::path::PathBuf;

use cudnn_probe::packages::{self, Component, DEFAULT_CUDA_MAJOR, Installer, Package};
use cudnn_probe::{InstallationReport, Origin, Version};

use super::install::{install_wheel, requirement};
use super::package_help::{all_packages, change, cuda_major, names, with_commands};
use super::places::site_packages;
use super::reinstall::reinstall;
use crate::check::finding::{Effect, Help};
use crate::check::limits::{Choice, Limits};
use crate::check::machine::Gpu;
use crate::context::Context;
use crate::shell::use_dir;

/// Installs cuDNN 9 where an older one is.
pub(in crate::check) fn replace_older(report: &InstallationReport) -> Option<Help> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn())?;
    let command = match package.installer {
        Installer::Pip | Installer::Conda => packages::upgrade(package, "9")?,
        // cuDNN 8 and cuDNN 9 are packages of different names.
        _ => packages::install_beside(package, Component::Cudnn, DEFAULT_CUDA_MAJOR, None)?,
    };
    Some(with_commands(format!("install cuDNN 9; {} is cuDNN {}:", package.name, report.major), &[command]))
}

/// What a program requires, and this installation is not or does not have.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) minimum: Option<Version>,
    pub(crate) cuda_major: Option<u32>,
    /// Libraries that only the full cuDNN has.
    pub(crate) full: bool,
    /// It is a program with this installation on its search path, and has to find the one in its place.
    pub(crate) is_of_program: bool,
}

/// Installs what is wanted: all of it, so that one help serves all findings.
///
/// # Errors
/// Why no release is what is wanted and fits these GPUs and the frameworks of the environment.
pub(crate) fn meet(
    report: &InstallationReport,
    wanted: &Wanted,
    gpus: &[Gpu],
    context: &Context,
) -> Result<Help, String> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let cuda = wanted.cuda_major.unwrap_or_else(|| cuda_major(report));
    let choice = limits(package, gpus, context).choose(wanted.minimum, cuda)?;
    Ok(meet_by(report, wanted, cuda, &choice, context))
}

/// The limits of the environment that this package is in, or of the active one.
fn limits<'a>(package: Option<&Package>, gpus: &'a [Gpu], context: &Context) -> Limits<'a> {
    let environments = context.search.environments();
    let root = match package {
        Some(package) => Some(package.root.as_path()).filter(|_| package.installer == Installer::Pip),
        None => environments.first().and_then(Origin::root),
    };
    Limits::new(root, gpus, &context.host)
}

fn meet_by(report: &InstallationReport, wanted: &Wanted, cuda: u32, choice: &Choice, context: &Context) -> Help {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let is_other_cuda = report.cuda_major.is_some_and(|major| major != cuda);
    let version = wanted.minimum.map(|version| version.to_string());
    if let Some(package) = package {
        let component = package.component().filter(|component| !wanted.full && component.is_published(cuda));
        let component = component.unwrap_or(Component::Cudnn);
        let packages = all_packages(report);
        // By its record it is new enough: its files are those of an older release.
        let is_recorded = |minimum: Version| recorded_version(package).is_some_and(|version| version >= minimum);
        if !is_other_cuda && !wanted.full && packages.len() == 1 && wanted.minimum.is_some_and(is_recorded) {
            return reinstall(report);
        }
        // The tools for system packages take one version or the newest one, and no range.
        let has_ranges = matches!(package.installer, Installer::Pip | Installer::Conda);
        let upgrade = |version: &String| packages::upgrade(package, &format!("{version}{}", choice.specifiers));
        let command = version.as_ref().filter(|_| has_ranges || choice.exact.is_none()).and_then(upgrade);
        if let (Some(command), Some(version), false) =
            (command, &version, is_other_cuda || wanted.full || packages.len() > 1)
        {
            return change([package], format!("upgrade {} to {version} or newer:", package.name), &[command]);
        }
        // The version of an installed package is kept unless a newer one is wanted.
        let commands = match (&version, &choice.exact) {
            (None, None) => packages::replace(&packages, component, cuda),
            (_, exact) => packages::replace_by(&packages, component, cuda, exact.as_deref()),
        };
        if !commands.is_empty() {
            let text = match (wanted.full, is_other_cuda) {
                (false, false) if packages.len() == 1 => format!("install another version of {}:", package.name),
                (true, true) => format!("install the full cuDNN for CUDA {cuda} in place of this one:"),
                (true, false) => "install the full cuDNN in place of this one:".to_owned(),
                (false, true) => format!("replace it by a cuDNN for CUDA {cuda}:"),
                (false, false) => {
                    format!("{} own the same files: remove all of them, then install one:", names(&packages))
                }
            };
            let is_named = wanted.is_of_program || context.search.explicit_candidate().is_some();
            return with_env(change(&packages, text, &commands), report, component.wheel_dir(cuda), is_named);
        }
    }
    let text = match (wanted.full, &version) {
        (true, None) => "the full cuDNN".to_owned(),
        (true, Some(version)) => format!("the full cuDNN {version} or newer"),
        (false, Some(version)) => format!("cuDNN {version} or newer"),
        (false, None) => "another cuDNN".to_owned(),
    };
    beside(report, &text, wanted.minimum, cuda, choice, context)
}

/// Installs another cuDNN, because no command can change this one.
pub(super) fn beside(
    report: &InstallationReport,
    wanted: &str,
    minimum: Option<Version>,
    cuda_major: u32,
    choice: &Choice,
    context: &Context,
) -> Help {
    let text = match &report.package {
        Some(package @ Package { installer: Installer::Pip, name, .. }) if package.is_cudnn() => format!(
            "pip cannot change {name} where `pip install --target` has put it; to install {wanted} in the program's \
             environment:"
        ),
        Some(Package { installer: Installer::Pip | Installer::Application, name, .. }) => {
            format!("{name} decides which cuDNN it ships; to install {wanted} beside it:")
        }
        Some(Package { name, .. }) => {
            format!("to install {wanted} in the program's environment, in place of the one in {name}:")
        }
        None => format!("install {wanted} in the program's environment:"),
    };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), minimum, choice);
    install_wheel(context, text, (&requirement, cuda_major), minimum, choice).effect(Effect::OtherDir)
}

/// Installs a build for servers beside one for Jetson.
pub(in crate::check) fn server_build(report: &InstallationReport, context: &Context) -> Help {
    beside(report, "a build for servers", None, cuda_major(report), &Choice::default(), context)
}

/// Has the shell use the directory that the commands install into, if they move a wheel of cuDNN and the shell or a program
/// names the directory that they remove.
fn with_env(help: Help, report: &InstallationReport, wheel_dir: PathBuf, is_named: bool) -> Help {
    let dir = site_packages(report).map(|site| site.join(wheel_dir)).filter(|dir| *dir != report.dir);
    match dir.filter(|_| help.effect == Effect::OtherDir && is_named) {
        Some(dir) => help.command(use_dir(&dir)),
        None => help,
    }
}

/// The release that the installer has recorded.
fn recorded_version(package: &Package) -> Option<Version> {
    let numbers: Vec<&str> = package.version.as_ref()?.split('.').take(3).collect();
    numbers.join(".").parse().ok()
}

/// Installs exactly this release.
///
/// # Errors
/// Why it does not fit the frameworks of the environment.
pub(in crate::check) fn install_version(
    report: &InstallationReport,
    wheel_version: &str,
    max_cuda_major: u32,
    context: &Context,
) -> Result<Help, String> {
    let cuda_major = cuda_major(report).min(max_cuda_major);
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    limits(package, &[], context).accept(wheel_version, cuda_major)?;
    let packages = all_packages(report);
    let is_named = context.search.explicit_candidate().is_some();
    // Old releases have no JIT-only wheel.
    let commands = packages::replace_by(&packages, Component::Cudnn, cuda_major, Some(wheel_version));
    if commands.is_empty() {
        let choice = Choice { exact: Some(wheel_version.to_owned()), ..Choice::default() };
        let requirement = requirement(&Component::Cudnn.wheel(cuda_major), None, &choice);
        let help = install_wheel(context, "install that release:", (&requirement, cuda_major), None, &choice);
        return Ok(with_env(help, report, Component::Cudnn.wheel_dir(cuda_major), is_named));
    }
    let help = change(&packages, "install that release:", &commands);
    Ok(with_env(help, report, Component::Cudnn.wheel_dir(cuda_major), is_named))
}
