//! Maps components to NVIDIA's package names and library directories. The list is fixed because anybody could publish a
//! package under an unused name.

use std::path::{Path, PathBuf};

use cudnn_os::files::below;
use cudnn_probe::{Component, Os, dir_of_wheel};

pub(super) const NVIDIA_PREFIX: &str = "nvidia-";

pub(crate) trait PackageNames {
    /// Returns pip's requirement for the wheel, with a version if several CUDA releases share the wheel's name.
    fn requirement(self, cuda_major: u32) -> String;

    /// Returns the directory of the wheel's libraries on this system, relative to the package directory.
    fn wheel_dir(self, cuda_major: u32) -> PathBuf;

    /// Returns the conda-forge package, or the package of the channel before `::`. The package `cuda-version` selects
    /// the CUDA release.
    fn conda_package(self) -> &'static str;

    /// Returns the package in NVIDIA's repositories for Debian, Ubuntu, Fedora, RHEL and SUSE. Names of CUDA's packages
    /// contain a full CUDA release such as 12.9, which requires the minor version.
    fn system_package(self, cuda_major: u32, cuda_minor: Option<u32>) -> Option<String>;
}

impl PackageNames for Component {
    fn requirement(self, cuda_major: u32) -> String {
        let wheel = self.wheel(cuda_major);
        if wheel.contains("-cu1") { wheel } else { format!("{wheel}=={cuda_major}.*") }
    }

    fn wheel_dir(self, cuda_major: u32) -> PathBuf {
        library_dir(&self.wheel(cuda_major), cuda_major)
    }

    fn conda_package(self) -> &'static str {
        match self {
            Component::Cudnn => "cudnn",
            Component::CudnnJit => "nvidia::libcudnn-jit",
            Component::Cublas => "libcublas",
            Component::Nvrtc => "cuda-nvrtc",
            Component::Cudart => "cuda-cudart",
        }
    }

    fn system_package(self, cuda_major: u32, cuda_minor: Option<u32>) -> Option<String> {
        match self {
            Component::Cudnn => Some(format!("libcudnn9-cuda-{cuda_major}")),
            Component::CudnnJit => Some(format!("libcudnn9-jit-cuda-{cuda_major}")),
            // CUDA's system packages are named like the conda packages.
            _ => Some(format!("{}-{cuda_major}-{}", self.conda_package(), cuda_minor?)),
        }
    }
}

/// Returns the directory of a wheel's libraries on this system, relative to the package directory.
fn library_dir(wheel: &str, cuda_major: u32) -> PathBuf {
    let dir = match (dir_of_wheel(wheel), Os::HOST) {
        (Some(own), Os::Windows) => format!("{own}/bin"),
        (Some(own), _) => format!("{own}/lib"),
        (None, Os::Windows) => format!("cu{cuda_major}/bin/x86_64"),
        (None, _) => format!("cu{cuda_major}/lib"),
    };
    below(Path::new("nvidia"), &dir)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CudaWheel {
    /// The name on the Python package index: `nvidia-cufft-cu12`.
    pub(crate) name: String,
    /// pip's requirement, with a version if several CUDA majors share the name: `nvidia-cufft==12.*`.
    pub(crate) requirement: String,
    /// The directory of the wheel's libraries, relative to the package directory.
    pub(crate) dir: PathBuf,
}

/// A library that cuDNN never opens, or with a version other than CUDA's. The fields are the stem of the file name, the
/// wheel name between `nvidia-` and `-cu12`, the versions in the file name for CUDA 12 and 13, and the wheel's major
/// version for CUDA 13, unless the wheel's name contains the CUDA major.
type Other = (&'static str, &'static str, [u32; 2], Option<u32>);

const OTHERS: [Other; 7] = [
    ("libcufft", "cufft", [11, 12], Some(12)),
    ("libcurand", "curand", [10, 10], Some(10)),
    ("libcusolver", "cusolver", [11, 12], Some(12)),
    ("libcusparse", "cusparse", [12, 12], Some(12)),
    ("libnvJitLink", "nvjitlink", [12, 13], Some(13)),
    ("libcupti", "cuda-cupti", [12, 13], Some(13)),
    ("libnccl", "nccl", [2, 2], None),
];

/// Returns the wheel that contains a CUDA library, such as `nvidia-cufft-cu12` for `libcufft.so.11`. `cuda_major` is
/// the program's, if known, because some names are the same for two majors (`libcurand.so.10`).
pub(crate) fn cuda_wheel(soname: &str, cuda_major: Option<u32>) -> Option<CudaWheel> {
    if let Some((component, Some(major))) = Component::from_soname(soname) {
        return component.is_published(major).then(|| CudaWheel {
            name: component.wheel(major),
            requirement: component.requirement(major),
            dir: component.wheel_dir(major),
        });
    }
    let (stem, version) = match soname.strip_suffix(".dll") {
        // `cufft64_11.dll`.
        Some(dll) => dll.split_once("64_").map(|(stem, version)| (format!("lib{stem}"), version))?,
        None => soname.split_once(".so.").map(|(stem, version)| (stem.to_owned(), version))?,
    };
    let version: u32 = version.split('.').next()?.parse().ok()?;
    let (_, name, versions, wheel_13) = OTHERS.iter().find(|(known, ..)| *known == stem)?;
    let is_of = |major: &u32| (12..).zip(versions).any(|(cuda, name)| cuda == *major && *name == version);
    let mut majors = (12..=13).filter(is_of);
    let major = match (cuda_major.filter(is_of), majors.next(), majors.next()) {
        (Some(major), ..) | (None, Some(major), None) => major,
        _ => return None,
    };
    let shared = wheel_13.filter(|_| major == 13);
    let name = if shared.is_some() { format!("nvidia-{name}") } else { format!("nvidia-{name}-cu{major}") };
    let requirement = shared.map_or_else(|| name.clone(), |wheel| format!("{name}=={wheel}.*"));
    Some(CudaWheel { dir: library_dir(&name, major), name, requirement })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a Linux directory to the equivalent on this system.
    fn dir(on_linux: &str) -> PathBuf {
        match (Os::HOST, on_linux.contains("/cu1")) {
            (Os::Windows, true) => on_linux.replace("lib", "bin/x86_64").into(),
            (Os::Windows, false) => on_linux.replace("lib", "bin").into(),
            _ => on_linux.into(),
        }
    }

    #[test]
    fn components_map_to_requirements_and_directories() {
        for (component, cuda_major, requirement, on_linux) in [
            (Component::Cudnn, 13, "nvidia-cudnn-cu13", "nvidia/cudnn/lib"),
            (Component::CudnnJit, 12, "nvidia-cudnn-jit-cu12", "nvidia/cudnn_jit/lib"),
            (Component::Cublas, 12, "nvidia-cublas-cu12", "nvidia/cublas/lib"),
            (Component::Cublas, 13, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            (Component::Nvrtc, 12, "nvidia-cuda-nvrtc-cu12", "nvidia/cuda_nvrtc/lib"),
            (Component::Cudart, 14, "nvidia-cuda-runtime==14.*", "nvidia/cu14/lib"),
        ] {
            assert_eq!(component.requirement(cuda_major), requirement);
            assert_eq!(component.wheel_dir(cuda_major), dir(on_linux), "{component} {cuda_major}");
        }
    }

    #[test]
    fn cuda_libraries_map_to_wheels_that_nvidia_publishes() {
        for (soname, cuda_major, requirement, on_linux) in [
            ("libcublasLt.so.13", None, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            ("libcudart.so.12", Some(13), "nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/lib"),
            ("libcufft.so.11", None, "nvidia-cufft-cu12", "nvidia/cufft/lib"),
            ("libcufft.so.12", None, "nvidia-cufft==12.*", "nvidia/cu13/lib"),
            ("libcurand.so.10", Some(12), "nvidia-curand-cu12", "nvidia/curand/lib"),
            ("libcurand.so.10", Some(13), "nvidia-curand==10.*", "nvidia/cu13/lib"),
            ("libcusparse.so.12", Some(12), "nvidia-cusparse-cu12", "nvidia/cusparse/lib"),
            ("libcupti.so.12", None, "nvidia-cuda-cupti-cu12", "nvidia/cuda_cupti/lib"),
            ("libnccl.so.2", Some(13), "nvidia-nccl-cu13", "nvidia/nccl/lib"),
            ("cublasLt64_13.dll", None, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            ("cufft64_11.dll", None, "nvidia-cufft-cu12", "nvidia/cufft/lib"),
        ] {
            let wheel = cuda_wheel(soname, cuda_major).map(|wheel| (wheel.requirement, wheel.dir));
            assert_eq!(wheel, Some((requirement.to_owned(), dir(on_linux))), "{soname} {cuda_major:?}");
        }
        for (soname, cuda_major) in [
            ("libcurand.so.10", None),
            ("libcurand.so.10", Some(14)),
            ("libcufft.so.10", Some(12)),
            ("libcufft.so", Some(12)),
            ("libcudnn.so.9", Some(12)),
            ("libz.so.1", Some(12)),
        ] {
            assert_eq!(cuda_wheel(soname, cuda_major), None, "{soname} {cuda_major:?}");
        }
    }
}
