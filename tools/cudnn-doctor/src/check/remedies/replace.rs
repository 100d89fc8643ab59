//! Another cuDNN in place of the one that is there, because a program requires what that is not.

use cudnn_frameworks::Environment;
use cudnn_frameworks::installation::{InstallationReport, Installer, Package};
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, Origin, Version};

use super::common::{all_packages, by_change, change, cuda_major, names, site_packages};
use super::install::{install_wheel, requirement};
use super::reinstall::reinstall;
use crate::check::limits::{Choice, Limits};
use crate::check::machine::Gpu;
use crate::context::Context;
use crate::packages::{self, PackageChange, PackageNames};
use crate::remedy::{Effect, Remedy, Variable};
use crate::surveys::FRAMEWORKS;

/// Installs cuDNN 9 where an older one is.
pub(in crate::check) fn replace_older(report: &InstallationReport) -> Option<Remedy> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn())?;
    let change = match package.installer {
        Installer::Pip | Installer::Conda => packages::upgrade(package, "9")?,
        // cuDNN 8 and cuDNN 9 are packages of different names.
        _ => packages::install_beside(package, Component::Cudnn, DEFAULT_CUDA_MAJOR, None)?,
    };
    Some(by_change(format!("install cuDNN 9; {} is cuDNN {}:", package.name, report.major), change))
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

impl Wanted {
    /// `the full cuDNN 9.22.0 or newer`.
    fn description(&self) -> String {
        let name = if self.full { "the full cuDNN" } else { "cuDNN" };
        match self.minimum {
            Some(minimum) => format!("{name} {minimum} or newer"),
            None if self.full => name.to_owned(),
            None => "another cuDNN".to_owned(),
        }
    }
}

/// Installs what is wanted: all of it, so that one help serves all findings.
///
/// # Errors
/// Why no release is what is wanted and fits these GPUs and the frameworks of the environment.
pub(crate) fn upgrade_to_requirement(
    report: &InstallationReport,
    wanted: &Wanted,
    gpus: &[Gpu],
    context: &Context,
) -> Result<Remedy, String> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    let cuda = wanted.cuda_major.unwrap_or_else(|| cuda_major(report));
    let choice = limits(package, gpus, context).choose(wanted.minimum, cuda)?;
    let in_place = package.and_then(|package| in_place(package, report, wanted, cuda, &choice, context));
    Ok(in_place.unwrap_or_else(|| beside(report, &wanted.description(), wanted.minimum, cuda, &choice, context)))
}

/// The limits of the environment that this package is in, or of the active one.
fn limits<'a>(package: Option<&Package>, gpus: &'a [Gpu], context: &Context) -> Limits<'a> {
    let environments = context.search.environments();
    let root = match package {
        Some(package) => Some(package.root.as_path()).filter(|_| package.installer == Installer::Pip),
        None => environments.first().and_then(Origin::root),
    };
    let survey = root.map(|root| context.survey(&Environment::at(root, &context.host), FRAMEWORKS));
    Limits::of_survey(survey.as_deref(), gpus)
}

/// Upgrades the package of an installation, or replaces it by another one. `None` if no command can do it.
fn in_place(
    package: &Package,
    report: &InstallationReport,
    wanted: &Wanted,
    cuda: u32,
    choice: &Choice,
    context: &Context,
) -> Option<Remedy> {
    let packages = all_packages(report);
    let is_other_cuda = report.cuda_major.is_some_and(|major| major != cuda);
    let is_same_kind = !is_other_cuda && !wanted.full && packages.len() == 1;
    // By its record it is new enough: its files are those of an older release.
    let is_recorded = |minimum: Version| recorded_version(package).is_some_and(|version| version >= minimum);
    if is_same_kind && wanted.minimum.is_some_and(is_recorded) {
        return Some(reinstall(report));
    }
    // The tools for system packages take one version or the newest one, and no range.
    let has_ranges = matches!(package.installer, Installer::Pip | Installer::Conda);
    if let Some(minimum) = wanted.minimum.filter(|_| is_same_kind && (has_ranges || choice.exact.is_none()))
        && let Some(upgrade) = packages::upgrade(package, &format!("{minimum}{}", choice.specifiers))
    {
        return Some(change([package], format!("upgrade {} to {minimum} or newer:", package.name), upgrade));
    }
    let component = package.component().filter(|component| !wanted.full && component.is_published(cuda));
    let component = component.unwrap_or(Component::Cudnn);
    // The version of an installed package is kept unless a newer one is wanted.
    let replacement = match (&wanted.minimum, &choice.exact) {
        (None, None) => packages::replace(&packages, component, cuda),
        (_, exact) => packages::replace_by(&packages, component, cuda, exact.as_deref()),
    };
    let text = format!("install {} for CUDA {cuda} in place of {}:", wanted.description(), names(&packages));
    let is_named = wanted.is_of_program || context.search.explicit_candidate().is_some();
    Some(replaced(&packages, text, replacement?, report, is_named))
}

/// Installs another cuDNN, because no command can change this one.
fn beside(
    report: &InstallationReport,
    wanted: &str,
    minimum: Option<Version>,
    cuda_major: u32,
    choice: &Choice,
    context: &Context,
) -> Remedy {
    let why = match &report.package {
        Some(package @ Package { installer: Installer::Pip, name, .. }) if package.is_cudnn() => {
            format!("pip cannot change {name} where `pip install --target` has put it; ")
        }
        Some(Package { name, .. }) => format!("no command changes the cuDNN of {name}; "),
        None => String::new(),
    };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), minimum, choice);
    let text = format!("{why}install {wanted} in the program's environment:");
    install_wheel(context, text, (&requirement, cuda_major), minimum, choice).effect(Effect::OtherDir)
}

/// Installs a build for servers beside one for Jetson.
pub(in crate::check) fn server_build(report: &InstallationReport, context: &Context) -> Remedy {
    beside(report, "a build for servers", None, cuda_major(report), &Choice::default(), context)
}

/// The remedy that makes this replacement. If it moves cuDNN, and the shell or a program names the directory that it removes,
/// the shell uses the new directory.
fn replaced(
    packages: &[Package],
    text: impl Into<String>,
    replacement: PackageChange,
    report: &InstallationReport,
    is_named: bool,
) -> Remedy {
    let remedy = change(packages, text, replacement);
    let is_jit = remedy.changes().flat_map(|change| &change.install).any(|one| one.contains("-jit-"));
    let component = if is_jit { Component::CudnnJit } else { Component::Cudnn };
    let dir = site_packages(report).map(|site| site.join(component.wheel_dir(cuda_major(report))));
    match dir.filter(|dir| *dir != report.dir && remedy.effect == Effect::OtherDir && is_named) {
        Some(dir) => remedy.action(Variable::Use(dir)),
        None => remedy,
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
) -> Result<Remedy, String> {
    let cuda_major = cuda_major(report).min(max_cuda_major);
    let package = report.package.as_ref().filter(|package| package.is_cudnn());
    limits(package, &[], context).accept(wheel_version, cuda_major)?;
    let packages = all_packages(report);
    // Old releases have no JIT-only wheel.
    let replacement = packages::replace_by(&packages, Component::Cudnn, cuda_major, Some(wheel_version));
    if let Some(replacement) = replacement {
        let is_named = context.search.explicit_candidate().is_some();
        return Ok(replaced(&packages, "install that release:", replacement, report, is_named));
    }
    let choice = Choice { exact: Some(wheel_version.to_owned()), ..Choice::default() };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), None, &choice);
    Ok(install_wheel(context, "install that release:", (&requirement, cuda_major), None, &choice))
}
