//! The CUDA major version that a run path states. From 9.17.0 on, the libraries for CUDA 13 have
//! `$ORIGIN/../../cu13/lib` in their run path, where the wheels of CUDA 13 put cuBLAS and NVRTC. Those for CUDA 12 do
//! not. (Checked in the wheels of 9.12 to 9.28, full and JIT-only, for x86-64 and aarch64.)

use crate::version::Version;

/// The first release with that directory in the run paths of its libraries for CUDA 13.
const SINCE: Version = Version::new(9, 17, 0);

/// The CUDA major version, and the newest one that is possible, by the run path of a library of this version. Neither
/// if the run path is not that of NVIDIA's build.
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
            // 9.12 to 9.16 for CUDA 13 have it, too.
            (OF_12, Some(Version::new(9, 16, 0)), (None, None)),
            (OF_12, None, (None, None)),
            ("$ORIGIN", Some(Version::new(9, 28, 0)), (None, None)),
            ("", Some(Version::new(9, 28, 0)), (None, None)),
        ] {
            assert_eq!(cuda(run_path, version), expected, "{run_path} {version:?}");
        }
    }
}
