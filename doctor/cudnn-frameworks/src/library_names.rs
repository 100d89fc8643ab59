//! Recognizes names of cuDNN, CUDA and driver libraries.

use cudnn_probe::{Library, Version};

/// The name of a cuDNN shim: `libcudnn.so.9`, `libcudnn-74a4c495.so.9.1.0` for a copy in a wheel, or `cudnn64_9.dll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudnnName {
    /// The name contains a hash, so libraries of other packages never request this copy.
    pub(crate) is_mangled: bool,
    pub(crate) major: Option<u32>,
    /// The release, if the name contains three numbers.
    pub(crate) version: Option<Version>,
}

impl CudnnName {
    /// Parses a file name or a SONAME.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        // Windows ignores case.
        if let Some(dll) = name.to_ascii_lowercase().strip_prefix("cudnn64_") {
            let major = dll.strip_suffix(".dll")?.parse().ok()?;
            return Some(CudnnName { is_mangled: false, major: Some(major), version: None });
        }
        let (stem, version) = name.split_once(".so")?;
        let hash = stem.strip_prefix("libcudnn")?;
        let is_hash = |hash: &str| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_mangled = hash.strip_prefix('-').is_some_and(is_hash);
        let version = if version.is_empty() { version } else { version.strip_prefix('.')? };
        if !is_mangled && !hash.is_empty() {
            return None;
        }
        let major = version.split('.').next().and_then(|major| major.parse().ok());
        let version = version.parse().ok().filter(|_| version.matches('.').count() == 2);
        Some(CudnnName { is_mangled, major, version })
    }
}

/// Returns whether this is the name of a cuDNN library, including the shim, on any system.
pub fn is_cudnn(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_dll = lower.starts_with("cudnn_") && lower.contains("64_") && lower.ends_with(".dll");
    is_dll || name.starts_with("libcudnn_") || CudnnName::parse(name).is_some()
}

/// Returns the cuDNN 9 library with this file name, which may contain the full version on Linux.
pub fn cudnn_library(name: &str) -> Option<Library> {
    if let Some((stem, _)) = name.split_once(".so.9") {
        return Library::from_file_name(&format!("{stem}.so.9"));
    }
    Library::from_file_name(&name.to_ascii_lowercase())
}

/// Returns whether this is the name of a CUDA or cuDNN library for Linux.
pub(crate) fn is_of_cuda(name: &str) -> bool {
    ["libcu", "libnv", "libnccl"].iter().any(|start| name.starts_with(start))
}

/// Returns whether this is the name of a driver library, such as `libcuda.so.1`, `libnvidia-ml.so.1` or `nvcuda.dll`.
/// Environments never contain one.
pub fn is_of_driver(name: &str) -> bool {
    const STARTS: [&str; 5] = ["libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-", "libnvoptix.so"];
    const DLLS: [&str; 5] = ["nvcuda.dll", "nvml.dll", "nvapi64.dll", "nvcuvid.dll", "nvencodeapi64.dll"];
    STARTS.iter().any(|start| name.starts_with(start)) || DLLS.iter().any(|dll| name.eq_ignore_ascii_case(dll))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shim_names_are_recognized() {
        let parse = |name| CudnnName::parse(name).map(|name| (name.is_mangled, name.major, name.version));
        assert_eq!(parse("libcudnn.so.9"), Some((false, Some(9), None)));
        assert_eq!(parse("libcudnn.so"), Some((false, None, None)));
        assert_eq!(parse("libcudnn.so.8.9.7"), Some((false, Some(8), Some(Version::new(8, 9, 7)))));
        assert_eq!(parse("libcudnn-74a4c495.so.9.1.0"), Some((true, Some(9), Some(Version::new(9, 1, 0)))));
        assert_eq!(parse("cudnn64_9.dll"), Some((false, Some(9), None)));
        assert_eq!(parse("CUDNN64_8.DLL"), Some((false, Some(8), None)));
        for (name, expected) in [
            ("libcudnn_graph.so.9", true),
            ("cudnn_graph64_9.dll", true),
            ("cudnn64_9.dll", true),
            ("libcudnn-74a4c495.so.9.1.0", true),
            ("cudnn_frontend.dll", false),
            ("cublas64_12.dll", false),
        ] {
            assert_eq!(is_cudnn(name), expected, "{name}");
        }
        for name in [
            "cudnn_graph64_9.dll",
            "cudnn64_.dll",
            "cudnn64_9.lib",
            "libcudnn_graph.so.9",
            "libcudnn-frontend.so.1",
            "libcudnn.solve",
            "libcublas.so.12",
            "libcudnn",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn driver_libraries_are_not_cuda_libraries() {
        for name in ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "NVCUDA.dll"] {
            assert!(is_of_driver(name), "{name}");
        }
        for name in ["libcudart.so.12", "libcudnn.so.9", "libnvrtc.so.12", "libnvJitLink.so.12", "cudart64_12.dll"] {
            assert!(!is_of_driver(name), "{name}");
        }
    }
}
