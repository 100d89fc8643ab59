//! Replaces a cuDNN that fails a program's requirements.

use cudnn_frameworks::Environment;
use cudnn_frameworks::installation::{InstallationReport, Installer, Package};
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, Origin, Version};

use super::common::{all_packages, by_change, cuda_major, names, real_place, site_packages};
use super::install::{install_wheel, requirement};
use super::reinstall::reinstall;
use crate::check::limits::{Limits, ReleaseChoice};
use crate::check::machine::Gpu;
use crate::context::{Context, MINIMAL_DEPTH};
use crate::packages::{self, PackageChange, PackageNames};
use crate::remedy::{Effect, Remedy, Variable};

pub(in crate::check) fn replace_older(report: &InstallationReport) -> Option<Remedy> {
    let package = report.package.as_ref().filter(|package| package.is_cudnn())?;
    let change = match package.installer {
        Installer::Pip | Installer::Conda => packages::upgrade(package, "9")?,
        // The packages of cuDNN 8 and cuDNN 9 have different names.
        _ => packages::install_beside(package, Component::Cudnn, DEFAULT_CUDA_MAJOR, None)?,
    };
    Some(by_change(format!("install cuDNN 9; {} is cuDNN {}:", package.name, report.major), change))
}

/// The unmet requirements of a program.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) minimum: Option<Version>,
    pub(crate) cuda_major: Option<u32>,
    /// Whether the program needs libraries that are only in the full cuDNN.
    pub(crate) full: bool,
    /// Whether the program searches the directory of this installation, and must find the replacement there.
    pub(crate) is_of_program: bool,
}

impl Wanted {
    fn description(&self) -> String {
        let name = if self.full { "the full cuDNN" } else { "cuDNN" };
        match self.minimum {
            Some(minimum) => format!("{name} {minimum} or newer"),
            None if self.full => name.to_owned(),
            None => "another cuDNN".to_owned(),
        }
    }
}

/// Installs a cuDNN that meets all requirements, as one remedy for all findings. Explains why if no release meets them
/// and suits the GPUs and the frameworks of the environment.
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
    Ok(in_place
        .unwrap_or_else(|| install_separately(report, &wanted.description(), wanted.minimum, cuda, &choice, context)))
}

/// Returns the limits of the environment that contains this package, or of the active environment.
fn limits<'a>(package: Option<&Package>, gpus: &'a [Gpu], context: &Context) -> Limits<'a> {
    let environments = context.search.environments();
    let root = match package {
        Some(package) => Some(package.root.as_path()).filter(|_| package.installer == Installer::Pip),
        None => environments.first().and_then(Origin::root),
    };
    let survey = root.map(|root| context.survey(&Environment::at(root, &context.host), MINIMAL_DEPTH));
    Limits::from_survey(survey.as_deref(), gpus)
}

fn in_place(
    package: &Package,
    report: &InstallationReport,
    wanted: &Wanted,
    cuda: u32,
    choice: &ReleaseChoice,
    context: &Context,
) -> Option<Remedy> {
    let packages = all_packages(report);
    let is_other_cuda = report.cuda_major.is_some_and(|major| major != cuda);
    let is_same_kind = !is_other_cuda && !wanted.full && packages.len() == 1;
    // The record says that the package is new enough, so the files must be from an older release.
    let is_recorded = |minimum: Version| package.release().is_some_and(|version| version >= minimum);
    if is_same_kind && wanted.minimum.is_some_and(is_recorded) {
        return Some(reinstall(report));
    }
    // System package managers install a given version or the newest, but know no ranges.
    let has_ranges = matches!(package.installer, Installer::Pip | Installer::Conda);
    if let Some(minimum) = wanted.minimum.filter(|_| is_same_kind && (has_ranges || choice.exact.is_none()))
        && let Some(upgrade) = packages::upgrade(package, &format!("{minimum}{}", choice.specifiers))
    {
        return Some(by_change(format!("upgrade {} to {minimum} or newer:", package.name), upgrade));
    }
    let component = package.component().filter(|component| !wanted.full && component.is_published(cuda));
    let component = component.unwrap_or(Component::Cudnn);
    // Keep the installed version unless a newer one is required.
    let replacement = match (&wanted.minimum, &choice.exact) {
        (None, None) => packages::replace(&packages, component, cuda),
        (_, exact) => packages::replace_by(&packages, component, cuda, exact.as_deref()),
    };
    let text = format!("install {} for CUDA {cuda} in place of {}:", wanted.description(), names(&packages));
    let is_named = wanted.is_of_program || context.search.explicit_candidate().is_some();
    Some(replaced(text, replacement?, component, report, is_named))
}

/// Installs a second cuDNN, because no command can change this one.
fn install_separately(
    report: &InstallationReport,
    wanted: &str,
    minimum: Option<Version>,
    cuda_major: u32,
    choice: &ReleaseChoice,
    context: &Context,
) -> Remedy {
    let why = match &report.package {
        Some(package @ Package { installer: Installer::Pip, name, .. }) if package.is_cudnn() => {
            format!("pip cannot change {name} in a directory filled by `pip install --target`; ")
        }
        Some(Package { name, .. }) => format!("no command changes the cuDNN of {name}; "),
        None => String::new(),
    };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), minimum, choice);
    let text = format!("{why}install {wanted} in the program's environment:");
    install_wheel(context, text, (&requirement, cuda_major), minimum, choice).effect(Effect::OtherDir)
}

pub(in crate::check) fn server_build(report: &InstallationReport, context: &Context) -> Remedy {
    install_separately(report, "a build for servers", None, cuda_major(report), &ReleaseChoice::default(), context)
}

/// Returns the remedy for this replacement. If cuDNN moves to a new directory, and the shell or a program names the old
/// one, the remedy selects the new directory.
fn replaced(
    text: impl Into<String>,
    replacement: PackageChange,
    component: Component,
    report: &InstallationReport,
    is_named: bool,
) -> Remedy {
    let remedy = by_change(text, replacement);
    let dir = site_packages(report).map(|site| site.join(component.wheel_dir(cuda_major(report))));
    match dir.filter(|dir| real_place(dir) != report.dir && remedy.effect == Effect::OtherDir && is_named) {
        Some(dir) => remedy.action(Variable::Use(dir)),
        None => remedy,
    }
}

/// Installs this exact release, or explains the conflict with the frameworks of the environment.
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
    // Old releases have no JIT-only wheel, so install the full one.
    let replacement = packages::replace_by(&packages, Component::Cudnn, cuda_major, Some(wheel_version));
    if let Some(replacement) = replacement {
        let is_named = context.search.explicit_candidate().is_some();
        return Ok(replaced("install that release:", replacement, Component::Cudnn, report, is_named));
    }
    let choice = ReleaseChoice { exact: Some(wheel_version.to_owned()), ..ReleaseChoice::default() };
    let requirement = requirement(&Component::Cudnn.wheel(cuda_major), None, &choice);
    Ok(install_wheel(context, "install that release:", (&requirement, cuda_major), None, &choice))
}
