//! Restores the files of the same cuDNN with the installer.

use std::io;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::{InstallationReport, Installer, Package, site_packages};
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR, Library, ProbeError, Version};

use super::common::{all_packages, apart_dir, by_change, cuda_major, names, no_place};
use super::files::{dangling_links, keep_release, leftovers, links, lost_links};
use super::stand_in::{explained, pull};
use crate::check::limits::demanded_cuda;
use crate::cudnn_file::{files_of_cudnn, is_drop_in};
use crate::packages::{self, PackageChange, PackageNames, Site};
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::system::{LOADER, is_loop, is_too_many_open_files};

/// Returns the fix for an unusable file, or `None` if the file is good.
pub(crate) fn repair(error: &ProbeError, report: Option<&InstallationReport>) -> Option<Remedy> {
    let has_package = report.is_some_and(|report| report.package.is_some());
    Some(match error {
        ProbeError::UnusableLibrary { error, .. } => return repair(error, report),
        ProbeError::GraphMissing { found_in: Some(dir) } => format!("use {} instead", dir.printable()).into(),
        ProbeError::WrongArchitecture { wanted, .. } if !has_package => format!("install cuDNN for {wanted}").into(),
        ProbeError::WrongOs { wanted, .. } if !has_package => format!("install cuDNN for {wanted}").into(),
        error if is_damage(error) => {
            let remedy = report.map_or_else(|| "reinstall this cuDNN".into(), reinstall);
            // An installer also restores the library.
            let pull = pull(error, report.map(|report| report.dir.as_path())).filter(|_| !remedy.installs());
            pull.unwrap_or_else(|| explained(remedy, error))
        }
        error if is_too_many_open_files(error) => {
            "allow the program more open files (`ulimit -n`), or have it close some".into()
        }
        ProbeError::Unreadable { error } if error.kind() == io::ErrorKind::PermissionDenied => {
            "give the user that runs this program permission to read it".into()
        }
        ProbeError::Unreadable { .. } => "make the file readable (see the OS error above)".into(),
        _ => return None,
    })
}

/// Returns whether reinstalling cuDNN would repair the file.
pub fn is_damage(error: &ProbeError) -> bool {
    match error {
        ProbeError::UnusableLibrary { error, .. } => is_damage(error),
        ProbeError::Unreadable { error } => is_loop(error),
        ProbeError::BrokenLink { .. }
        | ProbeError::SonameLinkMissing { .. }
        | ProbeError::NotRegularFile { .. }
        | ProbeError::UnknownFormat { .. }
        | ProbeError::Truncated { .. }
        | ProbeError::Malformed { .. }
        | ProbeError::WrongSoname { .. }
        | ProbeError::WrongArchitecture { .. }
        | ProbeError::WrongOs { .. }
        | ProbeError::WrongMajor { .. }
        | ProbeError::MixedVersions { .. }
        | ProbeError::MixedCuda { .. }
        | ProbeError::OtherRelease { .. } => true,
        _ => false,
    }
}

/// The part of [`reinstall`]'s text that applies if NVIDIA's shim overwrites the drop-in.
pub(crate) const PUT_DROP_IN_AGAIN: &str = ", then install the drop-in again";

/// Replaces damaged, missing or mixed files with files of one release.
pub fn reinstall(report: &InstallationReport) -> Remedy {
    if let Some(help) = leftovers(report) {
        return help;
    }
    if !report.other_packages.is_empty() {
        return keep_one(report, |_| true);
    }
    match report.package.as_ref().and_then(|package| Some((package, packages::reinstall(package)?))) {
        // If only links are missing, the files need not be copied again.
        None if !lost_links(report).is_empty() => links(&report.dir, report.version.unwrap_or(Version::new(9, 0, 0))),
        Some((package, change)) => {
            let has_drop_in = report.library(Library::Shim).is_some_and(|part| is_drop_in(&part.path));
            let after = if has_drop_in { PUT_DROP_IN_AGAIN } else { "" };
            let links = dangling_links(&report.dir).filter(|_| package.installer == Installer::Pip);
            by_change(format!("reinstall {}{after}:", package.name), change).actions(links)
        }
        None => install_over(report).unwrap_or_else(|| by_hand(report)),
    }
}

/// Installs a wheel over the same files in a Python environment, after pip has lost the record of them.
fn install_over(report: &InstallationReport) -> Option<Remedy> {
    let cuda_major = report.cuda_major.filter(|_| report.package.is_none())?;
    let components = [Component::Cudnn, Component::CudnnJit].into_iter();
    let found = |component: Component| {
        let dir = component.wheel_dir(cuda_major);
        Some((component, report.dir.ancestors().find(|site| site.join(&dir) == report.dir)?))
    };
    let (component, site) = components.into_iter().find_map(found)?;
    let root = site.ancestors().find(|root| site_packages(root).any(|dir| dir == site))?;
    let (wheel, version) = (component.wheel(cuda_major), report.version?);
    let change = PackageChange::of(Site::Environment(root.to_owned())).reinstall([format!("{wheel}=={version}.*")]);
    Some(by_change(format!("pip has lost its record of {wheel}: install it over the files:"), change.possible()?))
}

pub(in crate::check) fn restore(wheels: &[Package]) -> Option<Remedy> {
    let change = match wheels {
        [wheel] => packages::reinstall(wheel),
        _ => one_of(wheels, None, |_| true),
    };
    Some(by_change(format!("install the files of {} again:", names(wheels)), change?))
}

/// Removes all packages that own the directory and installs one of them: the one that a framework requires, the one in
/// the directory, or one for a CUDA major that fits. Of several records of one package, the one of the files counts.
pub(in crate::check) fn keep_one(report: &InstallationReport, fits: impl Fn(u32) -> bool) -> Remedy {
    let mut packages = all_packages(report);
    let is_one = packages.windows(2).all(|pair| matches!(pair, [one, other] if one.name == other.name));
    if is_one {
        packages.sort_by_key(|package| package.release() == report.version);
    }
    let Some(replacement) = one_of(&packages, Some(cuda_major(report)), fits) else { return by_hand(report) };
    let text = match names(&packages) {
        name if is_one => format!("remove all versions of {name}, then install one:"),
        names => format!("{names} own the same files: remove all of them, then install one:"),
    };
    by_change(text, replacement)
}

fn one_of(packages: &[Package], installed: Option<u32>, fits: impl Fn(u32) -> bool) -> Option<PackageChange> {
    let component = packages.last().and_then(Package::component).unwrap_or(Component::Cudnn);
    let of_package = |package: &Package| package.name.rsplit("-cu").next()?.parse().ok();
    let mut majors = installed.into_iter().chain(packages.iter().rev().filter_map(of_package));
    let cuda_major = demanded_cuda(packages).or_else(|| majors.find(|major| fits(*major))).or(installed);
    packages::replace(packages, component, cuda_major.unwrap_or(DEFAULT_CUDA_MAJOR))
}

/// Restores a missing shim for programs that load `libcudnn.so.9` by name.
pub(in crate::check) fn with_shim(report: &InstallationReport) -> Remedy {
    let has_package = report.package.as_ref().is_some_and(|package| packages::reinstall(package).is_some());
    if has_package {
        let remedy = reinstall(report);
        if remedy.actions.is_empty() {
            return remedy;
        }
        let text = format!("{} Then have {LOADER} search its directory first.", remedy.text);
        return remedy.with_text(text).search(&report.dir);
    }
    let Some(apart) = apart_dir(Component::Cudnn, cuda_major(report)) else { return no_place() };
    let change = packages::install_apart(Component::Cudnn, cuda_major(report), &apart);
    let Some((change, dir)) = change else { return by_hand(report) };
    by_change("no package can restore it: install a complete cuDNN elsewhere, and use that:", change)
        .action(Variable::Use(dir))
        .effect(Effect::OtherDir)
}

/// Returns the help if no command restores the files, because they were copied or their installer is unknown.
fn by_hand(report: &InstallationReport) -> Remedy {
    if let Some(remedy) = keep_release(report) {
        return remedy;
    }
    let dir = report.dir.printable();
    let Some(Package { installer, name, root, .. }) = &report.package else {
        let text = format!("remove the files of cuDNN 9 from {dir}, then copy all files of one release there:");
        let files = files_of_cudnn(&report.dir);
        let removal = (!files.is_empty()).then_some(Action::Remove(files));
        return Remedy::new(text).actions(removal).effect(Effect::SameDir).by_hand();
    };
    let root = root.printable();
    Remedy::new(match installer {
        Installer::Pip => format!(
            "install {name} into {root} again with the pip of the Python that uses these packages, along with all packages \
             that share a directory with it"
        ),
        Installer::Application => format!("reinstall {name}, which ships this cuDNN"),
        Installer::Archive => format!("unpack {name} again, or unpack another release elsewhere and use that"),
        _ => {
            let text = format!("reinstall {name}, which owns it, with the package manager of this system");
            return Remedy::new(text).effect(Effect::SameDir);
        }
    })
}

#[cfg(all(test, unix))]
mod tests;
