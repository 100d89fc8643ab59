//! The parts of CUDA that cuDNN's users install, and their names in each package index. Pure data.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::platform::{Os, below};

/// A library, or a set of libraries, that comes as one package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Component {
    /// All libraries of cuDNN.
    Cudnn,
    /// cuDNN with the engines that compile their kernels at run time, and no others.
    CudnnJit,
    /// cuBLAS: `libcublas` and `libcublasLt`.
    Cublas,
    /// NVRTC, the run-time compiler: `libnvrtc` and `libnvrtc-builtins`.
    Nvrtc,
    /// The CUDA runtime: `libcudart`.
    Cudart,
}

impl Component {
    /// All components.
    pub const ALL: &[Component] =
        &[Component::Cudnn, Component::CudnnJit, Component::Cublas, Component::Nvrtc, Component::Cudart];

    /// The component that a library belongs to, and the CUDA major version in its name: `libcublasLt.so.12` and
    /// `cublasLt64_12.dll` are cuBLAS for CUDA 12. The names of cuDNN's libraries have no CUDA version.
    #[must_use]
    pub fn from_soname(soname: &str) -> Option<(Component, Option<u32>)> {
        if let Some(dll) = soname.strip_suffix(".dll") {
            return from_dll_name(dll);
        }
        let (stem, version) = soname.split_once(".so").unwrap_or((soname, ""));
        let major = || version.strip_prefix('.')?.split('.').next()?.parse().ok();
        match stem {
            "libcublas" | "libcublasLt" => Some((Component::Cublas, major())),
            "libnvrtc" | "libnvrtc-builtins" => Some((Component::Nvrtc, major())),
            "libcudart" => Some((Component::Cudart, major())),
            _ if stem == "libcudnn" || stem.starts_with("libcudnn_") => Some((Component::Cudnn, None)),
            _ => None,
        }
    }

    /// Does NVIDIA publish a package of it for this CUDA major? Anybody could publish a name that NVIDIA does not have.
    #[must_use]
    pub const fn is_published(self, cuda_major: u32) -> bool {
        match self {
            Component::Cudnn => matches!(cuda_major, 11..=13),
            Component::CudnnJit => matches!(cuda_major, 12..=13),
            // From CUDA 13 on, one name serves all.
            Component::Cublas | Component::Nvrtc | Component::Cudart => cuda_major >= 11,
        }
    }

    /// The wheel on the Python package index. From CUDA 13 on, the names of the wheels of CUDA itself have no suffix. For a
    /// CUDA major without a wheel ([`Component::is_published`]): the wheel for the nearest one.
    #[must_use]
    pub fn wheel(self, cuda_major: u32) -> String {
        match self {
            Component::Cudnn => format!("nvidia-cudnn-cu{}", cuda_major.clamp(11, 13)),
            Component::CudnnJit => format!("nvidia-cudnn-jit-cu{}", cuda_major.clamp(12, 13)),
            Component::Cublas | Component::Nvrtc | Component::Cudart => {
                let name = match self {
                    Component::Cublas => "nvidia-cublas",
                    Component::Nvrtc => "nvidia-cuda-nvrtc",
                    _ => "nvidia-cuda-runtime",
                };
                if cuda_major >= 13 { name.to_owned() } else { format!("{name}-cu{}", cuda_major.max(11)) }
            }
        }
    }

    /// The wheel as pip's requirement. A wheel whose name does not state the CUDA version is held to it by its own.
    #[must_use]
    pub fn requirement(self, cuda_major: u32) -> String {
        let wheel = self.wheel(cuda_major);
        if wheel.contains("-cu1") { wheel } else { format!("{wheel}=={cuda_major}.*") }
    }

    /// The directory of the wheel's libraries on this system, relative to the directory of packages.
    #[must_use]
    pub fn wheel_dir(self, cuda_major: u32) -> PathBuf {
        let (lib, lib_of_13) = match Os::HOST {
            Os::Linux => ("lib", "lib"),
            Os::Windows => ("bin", "bin/x86_64"),
        };
        let of_cuda = |name: &str| {
            if cuda_major >= 13 { format!("nvidia/cu{cuda_major}/{lib_of_13}") } else { format!("nvidia/{name}/{lib}") }
        };
        let dir = match self {
            Component::Cudnn => format!("nvidia/cudnn/{lib}"),
            Component::CudnnJit => format!("nvidia/cudnn_jit/{lib}"),
            Component::Cublas => of_cuda("cublas"),
            Component::Nvrtc => of_cuda("cuda_nvrtc"),
            Component::Cudart => of_cuda("cuda_runtime"),
        };
        below(Path::new(""), &dir)
    }

    /// The conda package on conda-forge, or on the channel before `::`. The package `cuda-version` selects the CUDA
    /// release that it is for.
    #[must_use]
    pub const fn conda_package(self) -> &'static str {
        match self {
            Component::Cudnn => "cudnn",
            Component::CudnnJit => "nvidia::libcudnn-jit",
            Component::Cublas => "libcublas",
            Component::Nvrtc => "cuda-nvrtc",
            Component::Cudart => "cuda-cudart",
        }
    }

    /// The package in NVIDIA's repositories for Debian, Ubuntu, Fedora, RHEL and SUSE. Packages of CUDA itself have
    /// a full CUDA release in their names, 12.9 for example; the result is `None` without the minor version.
    #[must_use]
    pub fn system_package(self, cuda_major: u32, cuda_minor: Option<u32>) -> Option<String> {
        let name = match self {
            Component::Cudnn => return Some(format!("libcudnn9-cuda-{cuda_major}")),
            Component::CudnnJit => return Some(format!("libcudnn9-jit-cuda-{cuda_major}")),
            Component::Cublas => "libcublas",
            Component::Nvrtc => "cuda-nvrtc",
            Component::Cudart => "cuda-cudart",
        };
        Some(format!("{name}-{cuda_major}-{}", cuda_minor?))
    }
}

/// `cublasLt64_12`, `cudart64_110`, `nvrtc64_120_0`, `nvrtc-builtins64_129`, `cudnn_ops64_9`.
fn from_dll_name(name: &str) -> Option<(Component, Option<u32>)> {
    let (stem, version) = name.split_once("64_")?;
    let component = match stem {
        "cublas" | "cublasLt" | "cublaslt" => Component::Cublas,
        "nvrtc" | "nvrtc-builtins" => Component::Nvrtc,
        "cudart" => Component::Cudart,
        _ if stem == "cudnn" || stem.starts_with("cudnn_") => return Some((Component::Cudnn, None)),
        _ => return None,
    };
    // `12` is the major version, `110` and `129` end with the minor version.
    let number = version.split('_').next().unwrap_or_default();
    let major = number.get(..2).filter(|_| number.len() <= 3).and_then(|major| major.parse().ok());
    Some((component, major))
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Component::Cudnn => "cuDNN",
            Component::CudnnJit => "cuDNN (JIT only)",
            Component::Cublas => "cuBLAS",
            Component::Nvrtc => "NVRTC",
            Component::Cudart => "the CUDA runtime",
        })
    }
}

/// The wheel that contains this library: `nvidia-cublas-cu12` for `libcublasLt.so.12`. `None` for a library of neither
/// cuDNN nor CUDA, and for one of CUDA without a version in its name. For cuDNN's libraries the CUDA version is
/// unknown: see [`Component::wheel`].
#[must_use]
pub fn wheel_for(soname: &str) -> Option<String> {
    let (component, cuda_major) = Component::from_soname(soname)?;
    cuda_major.filter(|major| component.is_published(*major)).map(|major| component.wheel(major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_in_the_wheel_that_nvidia_publishes_for_its_cuda() {
        for (soname, wheel) in [
            ("libcublas.so.12", "nvidia-cublas-cu12"),
            ("libcublasLt.so.13", "nvidia-cublas"),
            ("libnvrtc.so.11.2", "nvidia-cuda-nvrtc-cu11"),
            ("libnvrtc-builtins.so.13.0", "nvidia-cuda-nvrtc"),
            ("libcudart.so.12", "nvidia-cuda-runtime-cu12"),
            ("cublasLt64_12.dll", "nvidia-cublas-cu12"),
            ("cudart64_110.dll", "nvidia-cuda-runtime-cu11"),
            ("nvrtc64_130_0.dll", "nvidia-cuda-nvrtc"),
            ("nvrtc-builtins64_129.dll", "nvidia-cuda-nvrtc-cu12"),
        ] {
            assert_eq!(wheel_for(soname).as_deref(), Some(wheel), "{soname}");
        }
        for soname in ["libcudnn_ops.so.9", "libcublas.so", "libcublasish.so.12", "libcublas.so.10", "libz.so.1", ""] {
            assert_eq!(wheel_for(soname), None, "{soname}");
        }
        for (soname, is_cudnn) in
            [("libcudnn.so.9", true), ("libcudnn_ops.so.9", true), ("libcudnnish.so.9", false), ("libz.so.1", false)]
        {
            assert_eq!(Component::from_soname(soname), is_cudnn.then_some((Component::Cudnn, None)), "{soname}");
        }
        for cuda_major in [0, 10, 14, 999] {
            let names = Component::ALL.iter().map(|component| component.wheel(cuda_major));
            let known = ["cu11", "cu12", "cu13", "cublas", "nvrtc", "runtime"];
            let unknown: Vec<String> = names.filter(|name| !known.iter().any(|end| name.ends_with(end))).collect();
            assert!(unknown.is_empty(), "{unknown:?}");
        }
        for (component, cuda_major, requirement, dir) in [
            (Component::Cudnn, 13, "nvidia-cudnn-cu13", "nvidia/cudnn/lib"),
            (Component::CudnnJit, 12, "nvidia-cudnn-jit-cu12", "nvidia/cudnn_jit/lib"),
            (Component::Cublas, 12, "nvidia-cublas-cu12", "nvidia/cublas/lib"),
            (Component::Cublas, 13, "nvidia-cublas==13.*", "nvidia/cu13/lib"),
            (Component::Nvrtc, 12, "nvidia-cuda-nvrtc-cu12", "nvidia/cuda_nvrtc/lib"),
            (Component::Cudart, 14, "nvidia-cuda-runtime==14.*", "nvidia/cu14/lib"),
        ] {
            assert_eq!(component.requirement(cuda_major), requirement);
            let on_windows = if dir.contains("/cu1") { "bin/x86_64" } else { "bin" };
            let dir = match Os::HOST {
                Os::Linux => dir.to_owned(),
                Os::Windows => dir.replace("lib", on_windows),
            };
            assert_eq!(component.wheel_dir(cuda_major), Path::new(&dir), "{component} {cuda_major}");
        }
    }
}
