//! Describes the contents of NVIDIA's wheels that a plan installs.

use std::path::Path;

use cudnn_fetch::RELEASES;
use cudnn_frameworks::{allows_from, normalized};
use cudnn_probe::facts::Changes;
use cudnn_probe::image::Links;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Component, Library, Version};

use crate::packages::{CUDA_MAJORS, PackageNames, is_satisfied_by, package_name};

/// The version that stands for any release of a CUDA wheel.
const ANY_MINOR: &str = ".9.0.0";

/// The last release for CUDA 11.
const LAST_FOR_CUDA_11: &str = "9.10.2.21";

/// A wheel of NVIDIA.
pub(super) struct Wheel {
    name: String,
    version: String,
    component: Component,
    cuda_major: u32,
    /// The requirements of the wheel.
    pub(super) requires: Vec<String>,
}

/// Returns the wheel that pip chooses for a requirement. `None` for packages whose contents are not known.
pub(super) fn chosen(requirement: &str) -> Option<Wheel> {
    let name = &normalized(package_name(requirement));
    let named = |cuda_major: u32| Component::ALL.iter().map(move |component| (*component, cuda_major));
    let is_it =
        |(component, major): &(Component, u32)| component.is_published(*major) && component.wheel(*major) == *name;
    let (component, first_major) = CUDA_MAJORS.flat_map(named).find(is_it)?;
    let is_of_cudnn = matches!(component, Component::Cudnn | Component::CudnnJit);
    let known: Vec<String> = if is_of_cudnn {
        // The versions in the requirement itself also exist.
        let newest = if first_major == 11 { LAST_FOR_CUDA_11 } else { newest_pinned(name) };
        let named = requirement.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|word| word.contains('.'));
        std::iter::once(newest).chain(named).map(|version| version.trim_end_matches('.').to_owned()).collect()
    } else {
        let exact = requirement.split_once("==").map(|(_, version)| version.to_owned());
        let is_of_wheel = |major: &u32| component.wheel(*major) == *name;
        let of_cuda = CUDA_MAJORS.rev().filter(is_of_wheel).map(|major| format!("{major}{ANY_MINOR}"));
        exact.into_iter().filter(|version| !version.contains('*')).chain(of_cuda).collect()
    };
    let version = known.into_iter().find(|version| is_met(requirement, version))?;
    // cuDNN 8 has other libraries.
    if is_of_cudnn && !version.starts_with("9.") {
        return None;
    }
    let cuda_major = if is_of_cudnn { first_major } else { version.split('.').next()?.parse().ok()? };
    let cublas = Component::Cublas.wheel(cuda_major);
    Some(Wheel {
        name: name.to_owned(),
        requires: if is_of_cudnn { vec![cublas] } else { Vec::new() },
        version,
        component,
        cuda_major,
    })
}

/// Returns whether a version meets a requirement.
pub(super) fn is_met(requirement: &str, version: &str) -> bool {
    is_satisfied_by(requirement, version) && is_allowed(requirement, version)
}

/// Returns whether the specifiers of a requirement allow a version.
fn is_allowed(requirement: &str, version: &str) -> bool {
    let separator = if package_name(requirement) == requirement { "" } else { "," };
    allows_from(&format!("{requirement}{separator}=={version}"), "0").is_none_or(|(_, is_allowed)| is_allowed)
}

/// Returns the newest release of cuDNN that is pinned for this wheel, or for any.
fn newest_pinned(name: &str) -> &'static str {
    RELEASES.iter().rev().find(|release| release.package == name).map_or(LAST_FOR_CUDA_11, |release| release.version)
}

impl Wheel {
    /// Adds the files of the wheel to a directory of packages.
    pub(super) fn install(&self, changes: &mut Changes, dir: &Path) {
        let libraries = dir.join(self.component.wheel_dir(self.cuda_major));
        let mut files: Vec<String> = Vec::new();
        for (name, needed, library) in self.libraries() {
            let file = libraries.join(&name);
            files.push(file.strip_prefix(dir).unwrap_or(&file).to_string_lossy().into_owned());
            let runpath = Some(self.run_path().into());
            let links = Links { soname: Some(name), needed, runpath, ..Links::default() };
            match library {
                Some(library) => changes.write_cudnn(&file, library, self.release(), self.cuda_major, &links),
                None => changes.write_library(&file, &links),
            }
        }
        let Wheel { name, version, requires, .. } = self;
        let info = format!("{}-{version}.dist-info", name.replace('-', "_"));
        let requires: String = requires.iter().map(|requirement| format!("Requires-Dist: {requirement}\n")).collect();
        let texts = [
            ("METADATA", format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}")),
            ("INSTALLER", "pip\n".to_owned()),
            ("RECORD", files.iter().map(|file| format!("{file},,\n")).collect()),
        ];
        for (file, text) in texts {
            changes.write(&dir.join(&info).join(file), &text);
        }
    }

    /// Returns the file names of the libraries, needed names, and the libraries of cuDNN.
    fn libraries(&self) -> Vec<(String, Vec<String>, Option<Library>)> {
        let major = self.cuda_major;
        let others = |names: &[String]| names.iter().map(|name| (name.clone(), Vec::new(), None)).collect();
        let is_in_wheel = |library: &Library| match self.component {
            Component::CudnnJit => {
                matches!(library, Library::Shim | Library::Graph | Library::EnginesRuntimeCompiled)
            }
            _ => has_library(self.release(), *library),
        };
        match self.component {
            Component::Cudnn | Component::CudnnJit => {
                let all = Library::ALL.iter().copied().filter(is_in_wheel);
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
    fn release_name(&self) -> String {
        self.version.split('.').take(2).collect::<Vec<_>>().join(".")
    }

    /// Returns the version of cuDNN.
    fn release(&self) -> Version {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Version::new(next(), next(), next())
    }

    fn run_path(&self) -> String {
        let own = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib";
        if self.cuda_major >= 13 { format!("{own}:$ORIGIN/../../cu{}/lib", self.cuda_major) } else { own.to_owned() }
    }
}
