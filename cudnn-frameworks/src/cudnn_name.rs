//! The names of cuDNN's shim in other libraries: `libcudnn.so.9`, and `libcudnn-74a4c495.so.9.1.0` for a copy that a
//! wheel contains. It imports nothing but the version.

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
        for name in ["libcudnn_graph.so.9", "libcudnn-frontend.so.1", "libcudnn.solve", "libcublas.so.12", "libcudnn"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
