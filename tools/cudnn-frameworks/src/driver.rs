//! The names of the libraries that NVIDIA's driver installs. Imports nothing.

/// Whether this is the name of a library of the driver: `libcuda.so.1`, `libnvidia-ml.so.1`, `nvcuda.dll`. No package of an environment
/// has one: where it is missing, there is no driver, and nothing else is.
#[must_use]
pub fn is_of_driver(name: &str) -> bool {
    const STARTS: [&str; 5] = ["libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-", "libnvoptix.so"];
    const DLLS: [&str; 5] = ["nvcuda.dll", "nvml.dll", "nvapi64.dll", "nvcuvid.dll", "nvencodeapi64.dll"];
    STARTS.iter().any(|start| name.starts_with(start)) || DLLS.iter().any(|dll| name.eq_ignore_ascii_case(dll))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_driver_are_not_those_of_cuda() {
        for name in ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "NVCUDA.dll"] {
            assert!(is_of_driver(name), "{name}");
        }
        for name in ["libcudart.so.12", "libcudnn.so.9", "libnvrtc.so.12", "libnvJitLink.so.12", "cudart64_12.dll"] {
            assert!(!is_of_driver(name), "{name}");
        }
    }
}
