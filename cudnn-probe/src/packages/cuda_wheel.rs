//! The wheels of CUDA's libraries: a fixed list of names, since anybody could publish a name that NVIDIA does not have.

use std::path::{Path, PathBuf};

use super::component::Component;
use crate::platform::{Os, below};

/// A wheel of NVIDIA's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CudaWheel {
    /// Its name on the Python package index: `nvidia-cufft-cu12`.
    pub name: String,
    /// pip's requirement, which selects the CUDA major where the name does not: `nvidia-cufft==12.*`.
    pub requirement: String,
    /// The directory of its libraries, relative to the directory of packages.
    pub dir: PathBuf,
}

/// A library whose version is not that of CUDA, or that cuDNN does not open.
struct Known {
    stem: &'static str,
    /// The name of the wheel between `nvidia-` and `-cu12`.
    name: &'static str,
    /// The name of the directory in wheels for CUDA 12.
    dir: &'static str,
    /// The version in the library's name for CUDA 12 and 13.
    versions: [u32; 2],
    /// The major version of the wheel for CUDA 13; `None` if its name states the CUDA major.
    wheel_13: Option<u32>,
}

const fn known(
    stem: &'static str,
    name: &'static str,
    dir: &'static str,
    versions: [u32; 2],
    wheel_13: Option<u32>,
) -> Known {
    Known { stem, name, dir, versions, wheel_13 }
}

const KNOWN: &[Known] = &[
    known("libcufft", "cufft", "cufft", [11, 12], Some(12)),
    known("libcurand", "curand", "curand", [10, 10], Some(10)),
    known("libcusolver", "cusolver", "cusolver", [11, 12], Some(12)),
    known("libcusparse", "cusparse", "cusparse", [12, 12], Some(12)),
    known("libnvJitLink", "nvjitlink", "nvjitlink", [12, 13], Some(13)),
    known("libcupti", "cuda-cupti", "cuda_cupti", [12, 13], Some(13)),
    known("libnccl", "nccl", "nccl", [2, 2], None),
];

/// The wheel that contains a library of CUDA: `nvidia-cufft-cu12` for `libcufft.so.11`. Some names are the same for two
/// CUDA majors (`libcurand.so.10`): `cuda_major` is that of the program, if it is known. `None` for a library that is not
/// in the list.
#[must_use]
pub fn cuda_wheel(soname: &str, cuda_major: Option<u32>) -> Option<CudaWheel> {
    if let Some((component, Some(major))) = Component::from_soname(soname) {
        let of_wheel = || CudaWheel {
            name: component.wheel(major),
            requirement: component.requirement(major),
            dir: component.wheel_dir(major),
        };
        return component.is_published(major).then(of_wheel);
    }
    let (stem, version) = match soname.strip_suffix(".dll") {
        // `cufft64_11.dll`.
        Some(dll) => dll.split_once("64_").map(|(stem, version)| (format!("lib{stem}"), version))?,
        None => soname.split_once(".so.").map(|(stem, version)| (stem.to_owned(), version))?,
    };
    let version: u32 = version.split('.').next()?.parse().ok()?;
    let library = KNOWN.iter().find(|library| library.stem == stem)?;
    let is_of = |major: &u32| (12..).zip(library.versions).any(|(cuda, name)| cuda == *major && name == version);
    let mut majors = (12..=13).filter(is_of);
    let major = match (cuda_major.filter(is_of), majors.next(), majors.next()) {
        (Some(major), ..) | (None, Some(major), None) => major,
        _ => return None,
    };
    let Known { name, dir, wheel_13, .. } = library;
    Some(match wheel_13 {
        Some(wheel) if major == 13 => {
            let name = format!("nvidia-{name}");
            let dir = match Os::HOST {
                Os::Linux => "nvidia/cu13/lib",
                Os::Windows => "nvidia/cu13/bin/x86_64",
            };
            CudaWheel { requirement: format!("{name}=={wheel}.*"), name, dir: below(Path::new(""), dir) }
        }
        _ => {
            let name = format!("nvidia-{name}-cu{major}");
            let lib = match Os::HOST {
                Os::Linux => "lib",
                Os::Windows => "bin",
            };
            let dir = below(Path::new(""), &format!("nvidia/{dir}/{lib}"));
            CudaWheel { requirement: name.clone(), name, dir }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_of_cuda_is_in_a_wheel_that_nvidia_publishes() {
        for (soname, cuda_major, requirement, dir) in [
            ("libcublasLt.so.13", None, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            ("libcudart.so.12", Some(13), "nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/lib"),
            ("libcufft.so.11", None, "nvidia-cufft-cu12", "nvidia/cufft/lib"),
            ("libcufft.so.12", None, "nvidia-cufft==12.*", "nvidia/cu13/lib"),
            ("libcurand.so.10", Some(12), "nvidia-curand-cu12", "nvidia/curand/lib"),
            ("libcurand.so.10", Some(13), "nvidia-curand==10.*", "nvidia/cu13/lib"),
            ("libcusolver.so.12", Some(12), "nvidia-cusolver==12.*", "nvidia/cu13/lib"),
            ("libcusparse.so.12", Some(12), "nvidia-cusparse-cu12", "nvidia/cusparse/lib"),
            ("libnvJitLink.so.13", None, "nvidia-nvjitlink==13.*", "nvidia/cu13/lib"),
            ("libcupti.so.12", None, "nvidia-cuda-cupti-cu12", "nvidia/cuda_cupti/lib"),
            ("libnccl.so.2", Some(13), "nvidia-nccl-cu13", "nvidia/nccl/lib"),
            ("cublasLt64_13.dll", None, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            ("cufft64_11.dll", None, "nvidia-cufft-cu12", "nvidia/cufft/lib"),
            ("curand64_10.dll", Some(13), "nvidia-curand==10.*", "nvidia/cu13/lib"),
        ] {
            let wheel = cuda_wheel(soname, cuda_major).map(|wheel| (wheel.requirement, wheel.dir));
            let on_windows = if dir.contains("/cu13") { "bin/x86_64" } else { "bin" };
            let dir = match Os::HOST {
                Os::Linux => dir.to_owned(),
                Os::Windows => dir.replace("lib", on_windows),
            };
            assert_eq!(wheel, Some((requirement.to_owned(), dir.into())), "{soname} {cuda_major:?}");
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
