//! Facts about cuDNN's releases that no file of an installation states, each with its source.

use crate::library::Library;
use crate::version::Version;

/// The libraries that 9.0.0 does not have, and the first release whose wheels have them. Source: the file lists of the
/// wheels of every minor release of 9, for CUDA 12 and CUDA 13.
pub const LIBRARY_SINCE: &[(Library, Version)] =
    &[(Library::EnginesTensorIr, Version::new(9, 21, 0)), (Library::Ext, Version::new(9, 22, 0))];

/// The oldest Linux driver for each CUDA major version. Source: NVIDIA's table of CUDA compatibility.
pub const MIN_DRIVER: &[(u32, &str)] = &[(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// The oldest compute capability, in tenths, from each of these releases on. Source: NVIDIA's support matrix.
pub const MIN_COMPUTE_CAPABILITY: &[(Version, u32)] = &[(Version::new(9, 0, 0), 50), (Version::new(9, 11, 0), 75)];

/// A known issue of some releases.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownIssue {
    /// The first release that has it.
    pub from: Version,
    /// The first release that no longer has it.
    pub fixed_in: Version,
    /// The effect on a program.
    pub description: &'static str,
}

/// Known issues from NVIDIA's release notes that affect users of several frameworks.
pub const KNOWN_ISSUES: &[KnownIssue] = &[
    KnownIssue {
        from: Version::new(9, 10, 0),
        fixed_in: Version::new(9, 10, 1),
        description: "one enum has its values in another order than in every other release",
    },
    KnownIssue {
        from: Version::new(9, 0, 0),
        fixed_in: Version::new(9, 10, 1),
        description: "cuDNN fails with cuBLASLt 12.9 or newer and several GPUs in one process",
    },
    KnownIssue {
        from: Version::new(9, 8, 0),
        fixed_in: Version::new(9, 11, 0),
        description: "3-d convolutions in bfloat16 can give wrong results",
    },
    KnownIssue {
        from: Version::new(9, 11, 0),
        fixed_in: Version::new(9, 15, 0),
        description: "3-d convolutions in bfloat16 are slow and use much memory",
    },
    KnownIssue {
        from: Version::new(9, 10, 2),
        fixed_in: Version::new(9, 15, 1),
        description: "3-d convolutions in TF32 can give wrong results",
    },
];

/// Does this release have this library?
#[must_use]
pub fn has_library(version: Version, library: Library) -> bool {
    LIBRARY_SINCE.iter().all(|(other, since)| *other != library || version >= *since)
}

/// The oldest compute capability that a release has kernels for, in tenths: 75 is 7.5.
#[must_use]
pub fn min_compute_capability(version: Version) -> u32 {
    MIN_COMPUTE_CAPABILITY.iter().rev().find(|(since, _)| version >= *since).map_or(50, |(_, capability)| *capability)
}

/// The known issues of a release.
pub fn known_issues(version: Version) -> impl Iterator<Item = &'static KnownIssue> {
    KNOWN_ISSUES.iter().filter(move |issue| issue.from <= version && version < issue.fixed_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_holds_from_its_release_on_and_until_the_release_that_changes_it() {
        // The release, which of the later libraries it has, its compute capability, and its known issues.
        for (version, has_tensor_ir, has_ext, capability, issues) in [
            ((8, 9, 7), false, false, 50, &[][..]),
            ((9, 0, 0), false, false, 50, &["several GPUs"]),
            ((9, 8, 0), false, false, 50, &["several GPUs", "bfloat16 can give wrong"]),
            ((9, 10, 0), false, false, 50, &["enum", "several GPUs", "bfloat16 can give wrong"]),
            ((9, 10, 1), false, false, 50, &["bfloat16 can give wrong"]),
            ((9, 10, 2), false, false, 50, &["bfloat16 can give wrong", "TF32"]),
            ((9, 11, 0), false, false, 75, &["bfloat16 are slow", "TF32"]),
            ((9, 15, 0), false, false, 75, &["TF32"]),
            ((9, 15, 1), false, false, 75, &[]),
            ((9, 20, 9), false, false, 75, &[]),
            ((9, 21, 0), true, false, 75, &[]),
            ((9, 22, 0), true, true, 75, &[]),
        ] {
            let version = Version::new(version.0, version.1, version.2);
            assert_eq!(has_library(version, Library::EnginesTensorIr), has_tensor_ir, "{version}");
            assert_eq!(has_library(version, Library::Ext), has_ext, "{version}");
            assert!(has_library(version, Library::Graph), "{version}");
            assert_eq!(min_compute_capability(version), capability, "{version}");
            let found: Vec<&str> = known_issues(version).map(|issue| issue.description).collect();
            assert_eq!(found.len(), issues.len(), "{version}: {found:?}");
            assert!(found.iter().zip(issues).all(|(found, issue)| found.contains(issue)), "{version}: {found:?}");
        }
    }
}
