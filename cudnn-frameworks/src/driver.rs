//! The names of the libraries that NVIDIA's driver installs. Imports nothing.

/// Whether this is the name of a library of the driver: `libcuda.so.1`, `libnvidia-ml.so.1`. No package of an environment
/// has one: where it is missing, there is no driver, and nothing else is.
#[must_use]
pub fn is_of_driver(name: &str) -> bool {
    const STARTS: [&str; 5] = ["libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-", "libnvoptix.so"];
    STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_driver_are_not_those_of_cuda() {
        for name in ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"] {
            assert!(is_of_driver(name), "{name}");
        }
        for name in ["libcudart.so.12", "libcudnn.so.9", "libnvrtc.so.12", "libnvJitLink.so.12", "libcublas.so.12"] {
            assert!(!is_of_driver(name), "{name}");
        }
    }
}
