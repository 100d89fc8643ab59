//! Derives the CUDA major version from a run path.
//!
//! From 9.17.0 on, libraries for CUDA 13 have `$ORIGIN/../../cu13/lib` in the run path, where the CUDA 13 wheels
//! install cuBLAS and NVRTC. Libraries for CUDA 12 do not have this directory. (Verified with the wheels of 9.12 to
//! 9.28, full and JIT-only, for x86-64 and aarch64.)

use crate::version::Version;

/// The first release with this directory in libraries for CUDA 13.
const SINCE: Version = Version::new(9, 17, 0);

/// Returns the CUDA major version and the newest possible one, based on the run path and version of a library. Both are
/// `None` if the run path does not come from a build by NVIDIA.
pub(super) fn cuda(run_path: &str, version: Option<Version>) -> (Option<u32>, Option<u32>) {
    let mut dirs = run_path.split("/../../cu").skip(1).peekable();
    let is_of_nvidia = dirs.peek().is_some();
    let major = dirs.find_map(|dir| dir.split('/').next()?.parse().ok());
    let is_limited = is_of_nvidia && major.is_none() && version.is_some_and(|version| version >= SINCE);
    (major, is_limited.then_some(12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_cuda_13_is_in_run_paths_from_9_17_on() {
        const OF_12: &str = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib";
        const OF_13: &str = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib:$ORIGIN/../../cu13/lib";
        for (run_path, version, expected) in [
            (OF_13, Some(Version::new(9, 28, 0)), (Some(13), None)),
            (OF_13, None, (Some(13), None)),
            (OF_12, Some(Version::new(9, 17, 0)), (None, Some(12))),
            // The run path is the same for CUDA 13 in 9.12 to 9.16.
            (OF_12, Some(Version::new(9, 16, 0)), (None, None)),
            (OF_12, None, (None, None)),
            ("$ORIGIN", Some(Version::new(9, 28, 0)), (None, None)),
            ("", Some(Version::new(9, 28, 0)), (None, None)),
        ] {
            assert_eq!(cuda(run_path, version), expected, "{run_path} {version:?}");
        }
    }
}
