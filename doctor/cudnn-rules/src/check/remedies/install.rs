//! Installs a cuDNN in the active environment or in a separate directory.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{Installer, Package};
use cudnn_probe::{Component, Origin, Os, Version};

use super::common::{apart_dir, by_change, no_place};
use crate::check::limits::ReleaseChoice;
use crate::check::machine::Machine;
use crate::check::plain_program::find;
use crate::check::wheel_choice::{WheelChoice, choose_wheel_for};
use crate::context::Context;
use crate::packages::{self, BasePython, PackageChange, PackageNames, Pip, Site, named_data_dir, python_in};
use crate::python::{self, Python};
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::system::LOADER;

const JETPACK_DIR: &str = "/usr/lib/aarch64-linux-gnu";

/// Installs the full cuDNN on a machine without one, if the frameworks of the active environment require none.
pub(crate) fn install(context: &Context, machine: &Machine, cuda_major: Option<u32>) -> Remedy {
    match choose_wheel_for(cuda_major, machine) {
        Ok(WheelChoice { cuda_major, requirement, .. }) => {
            let text = "install the full cuDNN in the program's environment:";
            install_wheel(context, text, (&requirement, cuda_major), None, &ReleaseChoice::default())
        }
        Err(reason) => Remedy::new(reason),
    }
}

/// Installs the full cuDNN wheel where programs of the active environment find it. Uses a separate directory if no
/// environment is active and the Python on `PATH` accepts no packages.
pub(super) fn install_wheel(
    context: &Context,
    text: impl Into<String>,
    (requirement, cuda_major): (&str, u32),
    minimum: Option<Version>,
    choice: &ReleaseChoice,
) -> Remedy {
    let environments = context.search.environments();
    let is_active = |origin: &Origin| python::is_active(origin) || root_of_conda(origin).is_some();
    let python = environments.iter().find_map(|origin| match origin {
        Origin::Python(root) if python_in(root).leads_to_file() => Some(root.as_path()),
        _ => None,
    });
    let base = python.map(packages::base_python).unwrap_or_default();
    // On Windows, every Python accepts packages.
    let takes_packages = Os::HOST == Os::Windows || base.takes_packages;
    if !takes_packages && !environments.iter().any(is_active) && context.python.is_none() {
        let mut requirements = vec![requirement.to_owned()];
        // pip refuses to add packages to such a directory later.
        if find(&format!("libnvrtc.so.{cuda_major}"), context).is_none() {
            requirements.push(Component::Nvrtc.requirement(cuda_major));
        }
        if let Some(help) = install_apart(requirements, cuda_major, python, base) {
            return help;
        }
    }
    match in_environment(context, requirement, minimum, choice) {
        Some(change) => by_change(text, change),
        None => Remedy::new(format!("install {requirement} in the program's environment")),
    }
}

/// Installs the full cuDNN in a separate directory, with the pip of this Python or in a virtual environment.
pub(super) fn install_apart(
    requirements: Vec<String>,
    cuda_major: u32,
    python: Option<&Path>,
    base: BasePython,
) -> Option<Remedy> {
    let Some(dir) = apart_dir(Component::Cudnn, cuda_major) else { return Some(no_place()) };
    let program = python.map_or(PathBuf::from("python3"), python_in);
    let (why, site) = if base.has_pip {
        // pip refuses to add to a directory that it has filled.
        let options = if dir.target_exists() { vec!["--upgrade"] } else { Vec::new() };
        let site = Site::Directory { dir: dir.clone(), pip: Pip::Interpreter(program), options };
        ("the system's Python does not accept packages from pip", site)
    } else {
        ("the system's Python has no pip", Site::NewEnvironment { dir: dir.clone(), program })
    };
    let text =
        format!("no environment is active, and {why}: install the full cuDNN in a separate directory, and use that:");
    let change = PackageChange::of(site).install(requirements).possible()?;
    Some(Remedy::new(text).change(change).action(Variable::Use(dir)).effect(Effect::OtherDir))
}

pub(super) fn requirement(wheel: &str, minimum: Option<Version>, choice: &ReleaseChoice) -> String {
    match (&choice.exact, minimum) {
        (Some(exact), _) => format!("{wheel}=={exact}"),
        (None, Some(version)) => format!("{wheel}>={version}{}", choice.specifiers),
        (None, None) => wheel.to_owned(),
    }
}

/// Returns the root of a conda environment, which may be active only through `PATH`.
fn root_of_conda(origin: &Origin) -> Option<&Path> {
    match origin {
        Origin::Conda(root) => Some(root.as_path()).filter(|root| root.leads_to_dir()),
        Origin::Python(root) => Some(root.as_path()).filter(|root| root.join("conda-meta").leads_to_dir()),
        _ => None,
    }
}

/// Installs a wheel in the active environment, or the same release with conda.
fn in_environment(
    context: &Context,
    requirement: &str,
    minimum: Option<Version>,
    choice: &ReleaseChoice,
) -> Option<PackageChange> {
    let in_site = |site: Site| PackageChange::of(site).install([requirement]).possible();
    let by_conda = |root: &Path| {
        let package = Package::new(Installer::Conda, Component::Cudnn.conda_package(), None, root);
        let minimum = minimum.unwrap_or(Version::new(9, 0, 0));
        packages::upgrade(&package, &format!("{minimum}{}", choice.specifiers))
    };
    let environments = context.search.environments();
    let active = environments.iter().find_map(|origin| match origin {
        Origin::VirtualEnvironment(root) if root.leads_to_dir() => Some(in_site(Site::Environment(root.clone()))),
        origin => root_of_conda(origin).map(by_conda),
    });
    active.unwrap_or_else(|| {
        let of_path = environments.iter().filter_map(|origin| match origin {
            Origin::Python(root) if python_in(root).leads_to_file() => Some(Site::Environment(root.clone())),
            _ => None,
        });
        let named = context.python.as_ref().map(Python::site);
        named.into_iter().chain(of_path).chain([Site::OnPath]).find_map(in_site)
    })
}

/// Installs a cuDNN of this older major in a separate directory and makes ld.so search it. Returns `None` if no wheel
/// meets the minimum for this CUDA.
pub(in crate::check) fn install_older(minimum: Version, cuda_major: u32) -> Option<Remedy> {
    // The last wheels of cuDNN 8.
    let last = match cuda_major {
        11 => Version::new(8, 9, 6),
        12 => Version::new(8, 9, 7),
        _ => return None,
    };
    if minimum.major != last.major || minimum > last {
        return None;
    }
    let name = format!("cudnn-{}-cuda-{cuda_major}", last.major);
    let Some(dir) = named_data_dir(&name) else { return Some(no_place()) };
    let requirement = format!("{}>={minimum},<9", Component::Cudnn.wheel(cuda_major));
    // pip refuses to add to a directory that it has filled.
    let options = if dir.target_exists() { vec!["--upgrade"] } else { Vec::new() };
    let site = Site::Directory { dir: dir.clone(), pip: Pip::Any, options };
    let text = format!("install cuDNN 8 in a separate directory, next to any cuDNN 9, and have {LOADER} search it:");
    // cuDNN 8 has no run path to cuBLAS.
    let dirs = [Component::Cublas, Component::Cudnn].map(|component| dir.join(component.wheel_dir(cuda_major)));
    let Some(change) = PackageChange::of(site).install([requirement]).possible() else {
        return Some(Remedy::new(text.trim_end_matches(':')));
    };
    let remedy = by_change(text, change).effect(Effect::Other);
    Some(dirs.iter().fold(remedy, |remedy, dir| remedy.search(dir)))
}

pub(in crate::check) fn install_jetpack(cuda_major: u32, product: &str) -> Remedy {
    let text = format!("install the cuDNN of JetPack, which has kernels for {product}, and use that:");
    let install = packages::install_for_system(Component::Cudnn, cuda_major);
    let remedy = Remedy::new(text).actions(install.map(Action::Packages));
    remedy.action(Variable::Use(JETPACK_DIR.into())).effect(Effect::OtherDir)
}

#[cfg(all(test, unix))]
mod tests;
