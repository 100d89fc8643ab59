//! Chooses the package changes that remedies need, depending on the installer.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{Installer, Package, site_packages};
use cudnn_probe::{Component, dir_of_wheel};

use super::apt;
use super::change::{PackageChange, Pip, Site};
use super::dirs::entries;
use super::pip::recorded_version;
use super::requirement::is_plain_name;
use super::wheels::PackageNames;

/// Installs a component system-wide with apt, if the package name contains no minor version of CUDA.
pub fn install_for_system(component: Component, cuda_major: u32) -> Option<PackageChange> {
    install_into(component, (cuda_major, None), Site::System, None)
}

/// Installs a component into the environment of an existing package, using the same installer. Only system packages of
/// CUDA itself need the minor version of CUDA.
///
/// If pip already recorded the component, this reinstalls the files, because pip would skip a plain `install`.
pub fn install_beside(
    package: &Package,
    component: Component,
    cuda_major: u32,
    cuda_minor: Option<u32>,
) -> Option<PackageChange> {
    if package.installer == Installer::Pip {
        let wheel = component.wheel(cuda_major);
        let is_for_this_cuda = |version: &String| {
            wheel.ends_with(&format!("-cu{cuda_major}")) || version.starts_with(&format!("{cuda_major}."))
        };
        let recorded = recorded_version(site_packages(&package.root), &wheel);
        if let Some(version) = recorded.filter(is_for_this_cuda) {
            return reinstall(&Package::new(Installer::Pip, &wheel, Some(&version), &package.root));
        }
    }
    let change = install_into(component, (cuda_major, cuda_minor), site_of(package)?, None)?;
    // With `--reinstall`, apt installs missing packages and reinstalls present ones.
    Some(match change.site {
        Site::System => {
            let again = change.install.into_iter().map(|name| apt::held(&name).unwrap_or(name)).collect();
            PackageChange { reinstall: again, install: Vec::new(), ..change }
        }
        _ => change,
    })
}

/// Installs a component into a new directory, for a cuDNN without a package manager. Returns the change and the
/// subdirectory with the libraries, if NVIDIA publishes such a wheel and there is a pip.
pub(crate) fn install_apart(component: Component, cuda_major: u32, target: &Path) -> Option<(PackageChange, PathBuf)> {
    let site = Site::Directory { dir: target.to_owned(), pip: Pip::Any, options: vec!["--no-deps"] };
    let change = PackageChange::of(site).install([component.requirement(cuda_major)]);
    let change = change.possible().filter(|_| component.is_published(cuda_major))?;
    Some((change, target.join(component.wheel_dir(cuda_major))))
}

fn site_of(package: &Package) -> Option<Site> {
    match package.installer {
        Installer::Pip => Some(Site::Environment(package.root.clone())),
        Installer::Conda => Some(Site::Conda(package.root.clone())),
        Installer::Dpkg => Some(Site::System),
        _ => None,
    }
}

fn pinned(name: &str, version: Option<&str>, site: &Site) -> String {
    let separator = if matches!(site, Site::Conda(_) | Site::System) { "=" } else { "==" };
    version.map_or_else(|| name.to_owned(), |version| format!("{name}{separator}{version}"))
}

fn install_into(
    component: Component,
    (cuda_major, cuda_minor): (u32, Option<u32>),
    site: Site,
    version: Option<&str>,
) -> Option<PackageChange> {
    if !component.is_published(cuda_major) {
        return None;
    }
    let requirements = match &site {
        Site::Conda(_) => {
            vec![pinned(component.conda_package(), version, &site), format!("cuda-version={cuda_major}")]
        }
        Site::System => vec![pinned(&component.system_package(cuda_major, cuda_minor)?, version, &site)],
        _ if version.is_none() => vec![component.requirement(cuda_major)],
        _ => vec![pinned(&component.wheel(cuda_major), version, &site)],
    };
    PackageChange::of(site).install(requirements).possible()
}

/// Reinstalls a package in the same version to restore damaged or deleted files. A plain `install` would not touch
/// them, because the installer's records list them as present.
///
/// Returns `None` if no command can reinstall the package:
///
/// - an archive or an application
/// - a package from a private index, with a local version such as `2.2.0+cu121`
/// - a package that shares a directory outside of an environment (`pip install --target`)
/// - a package with a name or version that the installer would not write
///
/// If several packages own the files, see [`replace`].
pub fn reinstall(package: &Package) -> Option<PackageChange> {
    let version = package.version.as_deref();
    let is_local = package.installer == Installer::Pip && version.is_some_and(|version| version.contains('+'));
    if is_local || !is_plain_name(&package.name) || !version.is_none_or(is_plain_name) {
        return None;
    }
    let site = site_of(package)?;
    let requirement = pinned(&package.name, version, &site);
    let again = PackageChange::of(site).reinstall([requirement.clone()]).possible();
    again.or_else(|| reinstall_into_target(package, requirement))
}

/// Reinstalls into a `pip install --target` directory. With `--upgrade`, pip removes the whole `nvidia` directory,
/// which must contain no other wheel.
fn reinstall_into_target(package: &Package, requirement: String) -> Option<PackageChange> {
    let own = dir_of_wheel(&package.name).filter(|_| package.is_cudnn())?;
    let is_own = |name: &std::ffi::OsStr| *name == *own || name.to_string_lossy().starts_with("__");
    let nvidia = package.root.join("nvidia");
    let options = vec!["--upgrade", "--force-reinstall", "--no-deps"];
    let site = Site::Directory { dir: package.root.clone(), pip: Pip::Any, options };
    let is_alone = nvidia.leads_to_dir() && entries(&nvidia).all(|entry| entry.file_name().is_some_and(is_own));
    is_alone.then(|| PackageChange::of(site).reinstall([requirement]))
}

/// Upgrades a package to at least this cuDNN version, such as `9.10.2`. Returns `None` if the package is not from
/// NVIDIA, because frameworks decide which cuDNN they ship.
pub fn upgrade(package: &Package, minimum: &str) -> Option<PackageChange> {
    let site = site_of(package).filter(|_| package.is_cudnn() && is_plain_name(&package.name))?;
    PackageChange::of(site).install([format!("{}>={minimum}", package.name)]).possible()
}

/// Replaces packages that own the same directory with a single package, if commands can do so. This repairs mixed
/// releases or CUDA versions, and switches the CUDA version. The change removes all packages first, because pip
/// silently overwrites the files of other packages. If the package to install is among them, the version stays, because
/// a framework may require it.
pub fn replace(packages: &[Package], component: Component, cuda_major: u32) -> Option<PackageChange> {
    let wheel = component.wheel(cuda_major);
    let same = packages.iter().filter(|package| package.installer == Installer::Pip && package.name == wheel);
    let version = same.filter_map(|package| package.version.as_deref()).rfind(|version| is_plain_name(version));
    replace_by(packages, component, cuda_major, version)
}

/// Like [`replace`], but installs the given version, such as `9.10.2.21`.
pub fn replace_by(
    packages: &[Package],
    component: Component,
    cuda_major: u32,
    version: Option<&str>,
) -> Option<PackageChange> {
    let is_plain = |package: &Package| package.is_cudnn() && is_plain_name(&package.name);
    let first = packages.first().filter(|_| packages.iter().all(is_plain))?;
    // One command changes one environment.
    if packages.iter().any(|package| package.root != first.root) {
        return None;
    }
    // NVIDIA's Debian packages use the wheel's version plus a package revision.
    let of_system = version.filter(|_| first.installer == Installer::Dpkg).map(|version| format!("{version}-1"));
    let version = of_system.as_deref().or(version);
    let change = install_into(component, (cuda_major, None), site_of(first)?, version)?;
    // The full wheel and the JIT-only wheel contain different files. If the installation fails, the old package
    // remains.
    let mut components = packages.iter().filter_map(Package::component);
    let removes_last = first.installer == Installer::Pip && components.all(|other| other != component);
    let names = packages.iter().map(|package| package.name.clone());
    PackageChange { removes_last, ..change }.remove(names).possible()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_cli::command::command_line;

    #[test]
    #[cfg_attr(not(windows), ignore = "tests commands for Windows")]
    fn windows_commands_use_windows_quoting() {
        let on_path = || PackageChange::of(Site::OnPath);
        let conda = Package::new(Installer::Conda, "libcudnn", Some("9.28.0.42"), "/env");
        let apart = install_apart(Component::Cudnn, 13, Path::new(r"C:\a b")).map(|(change, _)| change);
        for (change, expected) in [
            (
                Some(on_path().reinstall(["nvidia-cudnn-cu12==9.28.0.42"])),
                "python -m pip install --force-reinstall --no-deps nvidia-cudnn-cu12==9.28.0.42",
            ),
            (
                Some(on_path().install(["nvidia-cudnn-cu12>=9.12"])),
                r#"python -m pip install "nvidia-cudnn-cu12>=9.12""#,
            ),
            (
                reinstall(&conda),
                "conda install --yes --prefix /env --channel conda-forge --force-reinstall --copy libcudnn=9.28.0.42",
            ),
            (apart, r#"python -m pip install --target "C:\a b" --no-deps nvidia-cudnn-cu13"#),
        ] {
            let commands = change.and_then(|change| change.commands()).unwrap_or_default();
            assert_eq!(command_line(&commands), expected);
        }
    }
}
