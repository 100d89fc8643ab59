//! Maps libraries of cuDNN and CUDA to the wheels that contain them.

use std::fmt;

/// The CUDA major version to recommend if the version of the program is unknown.
pub const DEFAULT_CUDA_MAJOR: u32 = 12;

/// A library or a set of libraries that NVIDIA distributes as one package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Component {
    /// All libraries of cuDNN.
    Cudnn,
    /// cuDNN with only those engines that compile kernels at run time.
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

    /// Returns the component that a library belongs to and the CUDA major version in the file name. For example,
    /// `libcublasLt.so.12` and `cublasLt64_12.dll` are cuBLAS for CUDA 12. File names of cuDNN contain no CUDA version.
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

    /// Returns whether NVIDIA publishes a package for this CUDA major version. Do not recommend other names, because
    /// anybody could register them.
    #[must_use]
    pub const fn is_published(self, cuda_major: u32) -> bool {
        match self {
            Component::Cudnn => matches!(cuda_major, 11..=13),
            Component::CudnnJit => matches!(cuda_major, 12..=13),
            // From CUDA 13 on, all major versions share one name.
            Component::Cublas | Component::Nvrtc | Component::Cudart => cuda_major >= 11,
        }
    }

    /// Returns the name of the wheel on the Python package index. From CUDA 13 on, the wheels of CUDA itself have no
    /// suffix. If a CUDA major version has no wheel ([`Component::is_published`]), this is the wheel for the nearest
    /// version.
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
}

/// Returns the directory below `nvidia` that only this wheel of NVIDIA fills: `cuda_nvrtc` for `nvidia-cuda-nvrtc-cu12`.
/// The wheels of CUDA without a suffix share a directory named after the CUDA major version: `cu13`.
#[must_use]
pub fn dir_of_wheel(name: &str) -> Option<String> {
    let (product, cuda) = name.strip_prefix("nvidia-")?.rsplit_once("-cu1")?;
    cuda.bytes().all(|byte| byte.is_ascii_digit()).then(|| product.replace('-', "_"))
}

/// Handles names such as `cublasLt64_12`, `cudart64_110`, `nvrtc64_120_0`, `nvrtc-builtins64_129` and `cudnn_ops64_9`.
fn from_dll_name(name: &str) -> Option<(Component, Option<u32>)> {
    let (stem, version) = name.split_once("64_")?;
    let component = match stem {
        "cublas" | "cublasLt" | "cublaslt" => Component::Cublas,
        "nvrtc" | "nvrtc-builtins" => Component::Nvrtc,
        "cudart" => Component::Cudart,
        _ if stem == "cudnn" || stem.starts_with("cudnn_") => return Some((Component::Cudnn, None)),
        _ => return None,
    };
    // `12` is a major version, while `110` and `129` also contain the minor version.
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
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
            let (component, cuda_major) = Component::from_soname(soname).unwrap();
            assert_eq!(component.wheel(cuda_major.unwrap()), wheel, "{soname}");
        }
        for (wheel, dir) in [
            ("nvidia-cudnn-cu13", Some("cudnn")),
            ("nvidia-cudnn-jit-cu12", Some("cudnn_jit")),
            ("nvidia-cuda-nvrtc-cu11", Some("cuda_nvrtc")),
            ("nvidia-cudnn-cu12-extra", None),
            ("nvidia-cuda-cupti", None),
            ("nvidia-cublas", None),
            ("torch-cu12", None),
        ] {
            assert_eq!(dir_of_wheel(wheel).as_deref(), dir, "{wheel}");
        }
        for soname in ["libcublasish.so.12", "libz.so.1", ""] {
            assert_eq!(Component::from_soname(soname), None, "{soname}");
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
    }
}
