//! The names of cuDNN's shim in other libraries: `libcudnn.so.9`, and `libcudnn-74a4c495.so.9.1.0` for a copy that a
//! wheel contains; `cudnn64_9.dll` on Windows. It imports nothing but the version.

use cudnn_probe::Version;

/// A name of cuDNN's shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudnnName {
    /// A copy with a hash in its name, which is its SONAME too: no other package's library asks for it.
    pub(crate) is_mangled: bool,
    pub(crate) major: Option<u32>,
    /// The release, if the name has three numbers.
    pub(crate) version: Option<Version>,
}

impl CudnnName {
    /// Parses a file name or a SONAME.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(major) = of_dll(name) {
            return Some(CudnnName { is_mangled: false, major: Some(major), version: None });
        }
        let (stem, version) = name.split_once(".so")?;
        let is_mangled = match stem.strip_prefix("libcudnn")? {
            "" => false,
            hash => {
                let hash = hash.strip_prefix('-')?;
                if hash.len() != 8 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                true
            }
        };
        let version = match version.strip_prefix('.') {
            Some(version) => version,
            None if version.is_empty() => "",
            None => return None,
        };
        let major = version.split('.').next().and_then(|major| major.parse().ok());
        let version = version.parse().ok().filter(|_| version.matches('.').count() == 2);
        Some(CudnnName { is_mangled, major, version })
    }
}

/// 9 of `cudnn64_9.dll`, in any case of letters.
fn of_dll(name: &str) -> Option<u32> {
    name.to_ascii_lowercase().strip_prefix("cudnn64_")?.strip_suffix(".dll")?.parse().ok()
}

/// Whether this is the name of one of cuDNN's libraries, on any system: the shim's, or that of another.
#[must_use]
pub fn is_cudnn(name: &str) -> bool {
    CudnnName::parse(name).is_some() || name.starts_with("libcudnn_") || is_sub_dll(name)
}

/// `cudnn_graph64_9.dll`. The names for Linux have no such end.
fn is_sub_dll(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".dll").is_some_and(|stem| stem.starts_with("cudnn_") && stem.contains("64_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_shim_are_recognised() {
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
}
