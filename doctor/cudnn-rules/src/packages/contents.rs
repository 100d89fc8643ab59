//! Describes the contents of NVIDIA's packages that a plan installs.

use std::path::{Path, PathBuf};

use cudnn_fetch::RELEASES;
use cudnn_frameworks::{allows, normalized};
use cudnn_probe::facts::Changes;
use cudnn_probe::image::Links;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Component, Library, Version};

use super::CUDA_MAJORS;
use super::requirement::package_name;
use super::wheels::PackageNames;

/// The minor version that represents every release of a CUDA package.
const ANY_MINOR: u32 = 9;

const LAST_FOR_CUDA_11: &str = "9.10.2.21";

/// A version of cuDNN 8 with wheels for CUDA 11 and 12.
const CUDNN_8: &str = "8.9.6.50";

const OF_CUDNN_8: [&str; 7] = ["", "_ops_infer", "_ops_train", "_cnn_infer", "_cnn_train", "_adv_infer", "_adv_train"];

const REVISION: &str = "-1";

/// conda's package of cuDNN's libraries. `cudnn` only requires it.
pub(crate) const CONDA_LIBRARIES: &str = "libcudnn";

/// conda's packages that follow the version of [`CONDA_LIBRARIES`].
pub(crate) const CONDA_FOLLOWERS: [&str; 2] = ["cudnn", "libcudnn-dev"];

/// conda's package that selects the CUDA release.
pub(crate) const CONDA_CUDA: &str = "cuda-version";

pub(crate) struct NvidiaPackage {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) cuda_major: u32,
    /// The libraries in the package. `None` if it only requires others.
    pub(crate) component: Option<Component>,
    pub(crate) requires: Vec<String>,
}

/// Returns the wheel that pip chooses for a requirement, if the contents are known.
pub(crate) fn wheel(requirement: &str) -> Option<NvidiaPackage> {
    let name = &normalized(package_name(requirement));
    let (component, first_major) = published(|component, major| component.wheel(major) == *name)?;
    let default = default_version(component, first_major, None);
    let package = NvidiaPackage::of(name, component, first_major, requirement, default)?;
    let cublas = package.is_of_cudnn().then(|| Component::Cublas.requirement(package.cuda_major));
    Some(NvidiaPackage { requires: cublas.into_iter().collect(), ..package })
}

/// Returns the package that conda chooses for a requirement in an environment for this CUDA major version. If
/// `has_all`, a `cudnn` contains the libraries itself, like older ones.
pub(crate) fn conda_package(requirement: &str, cuda_major: u32, has_all: bool) -> Option<NvidiaPackage> {
    let name = package_name(requirement);
    if name == CONDA_CUDA {
        let version = format!("{cuda_major}.{ANY_MINOR}");
        return Some(NvidiaPackage::without_libraries(name, &version, cuda_major, Vec::new()));
    }
    let is_it = |component: Component, _| [package_name(component.conda_package()), CONDA_LIBRARIES].contains(&name);
    let (component, _) = published(|component, major| major == cuda_major && is_it(component, major))?;
    let default = default_version(component, cuda_major, None);
    let package = NvidiaPackage::of(name, component, cuda_major, requirement, default)?;
    // conda's packages of cuDNN 8 have other contents.
    if package.is_of_cudnn() && package.release().major != 9 {
        return None;
    }
    if name == Component::Cudnn.conda_package() && !has_all {
        let libraries = format!("{CONDA_LIBRARIES}={}", package.version);
        return Some(NvidiaPackage::without_libraries(name, &package.version, cuda_major, vec![libraries]));
    }
    let needed = [Component::Cublas, Component::Nvrtc].map(|component| component.conda_package().to_owned());
    let requires = if package.is_of_cudnn() { needed.to_vec() } else { Vec::new() };
    Some(NvidiaPackage { requires, ..package })
}

/// Returns the Debian package that apt chooses for a requirement: an exact version, or the newest one.
pub(crate) fn debian_package(requirement: &str) -> Option<NvidiaPackage> {
    let name = package_name(requirement);
    let minor = name.rsplit('-').next().and_then(|minor| minor.parse().ok());
    let is_it =
        |component: Component, major| component.system_package(major, minor).is_some_and(|package| package == name);
    let (component, cuda_major) = published(is_it)?;
    let exact = requirement.strip_prefix(name).is_some_and(|versions| versions.starts_with('='));
    let requirement = if exact { requirement.strip_suffix(REVISION)? } else { name };
    let default = default_version(component, cuda_major, minor);
    let package = NvidiaPackage::of(name, component, cuda_major, requirement, default)?;
    Some(NvidiaPackage { version: package.version + REVISION, ..package })
}

/// Returns the first wanted component that NVIDIA publishes for a CUDA major version.
fn published(is_wanted: impl Fn(Component, u32) -> bool) -> Option<(Component, u32)> {
    let all = CUDA_MAJORS.flat_map(|major| Component::ALL.iter().map(move |component| (*component, major)));
    { all }.find(|(component, major)| component.is_published(*major) && is_wanted(*component, *major))
}

/// Returns the newest known version, or one that represents all.
fn default_version(component: Component, cuda_major: u32, minor: Option<u32>) -> String {
    match component {
        _ if !is_of_cudnn(component) => format!("{cuda_major}.{}.0.0", minor.unwrap_or(ANY_MINOR)),
        _ if cuda_major == 11 => LAST_FOR_CUDA_11.to_owned(),
        _ => {
            let wheel = component.wheel(cuda_major);
            let newest = RELEASES.iter().rev().find(|release| release.package == wheel);
            newest.map_or(LAST_FOR_CUDA_11, |release| release.version).to_owned()
        }
    }
}

/// Returns the known versions from the newest to the oldest, or one that represents each minor version.
fn older_versions(component: Component, cuda_major: u32) -> Vec<String> {
    if !is_of_cudnn(component) {
        return (0..ANY_MINOR).rev().map(|minor| format!("{cuda_major}.{minor}.0.0")).collect();
    }
    let wheel = component.wheel(cuda_major);
    let known = RELEASES.iter().rev().filter(|release| release.package == wheel);
    known.map(|release| release.version.to_owned()).collect()
}

fn is_of_cudnn(component: Component) -> bool {
    matches!(component, Component::Cudnn | Component::CudnnJit)
}

impl NvidiaPackage {
    /// Returns the package with the first of these versions that meets the requirement: the default, older ones, the
    /// versions in the requirement, which also exist, and cuDNN 8.
    fn of(
        name: &str,
        component: Component,
        cuda_major: u32,
        requirement: &str,
        default: String,
    ) -> Option<NvidiaPackage> {
        let words = requirement.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
        let named = words.filter(|word| word.contains('.')).map(str::to_owned);
        let of_8 = (component == Component::Cudnn).then(|| CUDNN_8.to_owned());
        let older = older_versions(component, cuda_major);
        let mut versions = std::iter::once(default).chain(older).chain(named).chain(of_8);
        let version = versions.find(|version| allows(requirement, version))?;
        let is_of_cudnn = is_of_cudnn(component);
        let cuda_major = if is_of_cudnn { cuda_major } else { version.split('.').next()?.parse().ok()? };
        Some(NvidiaPackage {
            name: name.to_owned(),
            version,
            cuda_major,
            component: Some(component),
            requires: Vec::new(),
        })
    }

    pub(crate) fn without_libraries(
        name: &str,
        version: &str,
        cuda_major: u32,
        requires: Vec<String>,
    ) -> NvidiaPackage {
        NvidiaPackage { name: name.to_owned(), version: version.to_owned(), cuda_major, component: None, requires }
    }

    /// Returns the Debian packages that conflict with this one, because they contain the same files.
    pub(crate) fn debian_rivals(&self) -> Vec<String> {
        let of_major = |major| [Component::Cudnn, Component::CudnnJit].map(|one| one.system_package(major, None));
        let all = CUDA_MAJORS.flat_map(of_major).flatten();
        all.filter(|name| self.is_of_cudnn() && *name != self.name).collect()
    }

    pub(crate) fn is_of_cudnn(&self) -> bool {
        self.component.is_some_and(is_of_cudnn)
    }

    /// Adds the libraries of the package to a directory. Returns their paths.
    pub(crate) fn write(&self, changes: &mut Changes, dir: &Path, run_path: Option<&str>) -> Vec<PathBuf> {
        let add = |(name, needed, library): (String, Vec<String>, Option<Library>)| {
            let file = dir.join(&name);
            let links = Links { soname: Some(name), needed, runpath: run_path.map(Into::into), ..Links::default() };
            match library {
                Some(library) => changes.write_cudnn(&file, library, self.release(), self.cuda_major, &links),
                None => changes.write_library(&file, &links),
            }
            file
        };
        self.libraries().into_iter().map(add).collect()
    }

    /// Returns the file names of the libraries, needed names, and the libraries of cuDNN.
    fn libraries(&self) -> Vec<(String, Vec<String>, Option<Library>)> {
        let major = self.cuda_major;
        let others = |names: &[String]| names.iter().map(|name| (name.clone(), Vec::new(), None)).collect();
        let Some(component) = self.component else { return Vec::new() };
        let is_in_package = |library: &Library| match component {
            Component::CudnnJit => {
                matches!(library, Library::Shim | Library::Graph | Library::EnginesRuntimeCompiled)
            }
            _ => has_library(self.release(), *library),
        };
        match component {
            Component::Cudnn if self.release().major == 8 => {
                others(&OF_CUDNN_8.map(|part| format!("libcudnn{part}.so.8")))
            }
            Component::Cudnn | Component::CudnnJit => {
                let all = Library::ALL.iter().copied().filter(is_in_package);
                let needed =
                    |library: Library| library.dependencies().iter().map(|one| one.file_name().to_owned()).collect();
                all.map(|library| (library.file_name().to_owned(), needed(library), Some(library))).collect()
            }
            Component::Cublas => others(&[format!("libcublas.so.{major}"), format!("libcublasLt.so.{major}")]),
            Component::Nvrtc => {
                others(&[format!("libnvrtc.so.{major}"), format!("libnvrtc-builtins.so.{}", self.release_name())])
            }
            Component::Cudart => others(&[format!("libcudart.so.{major}")]),
        }
    }

    /// Returns the first two numbers of the version: `12.9`.
    pub(crate) fn release_name(&self) -> String {
        self.version.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    fn release(&self) -> Version {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Version::new(next(), next(), next())
    }
}
