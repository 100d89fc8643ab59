//! What is known of cuDNN's releases and of the machines that they run on: the one list of facts that no file of an
//! installation states, each with its source.

use crate::{Library, Version};

/// The libraries that were not there from the beginning, and the first release whose wheels have them. From the lists of
/// files of the wheels of every minor release of 9, for CUDA 12 and for CUDA 13.
pub const LIBRARY_SINCE: [(Library, Version); 2] =
    [(Library::EnginesTensorIr, Version::new(9, 21, 0)), (Library::Ext, Version::new(9, 22, 0))];

/// The oldest Linux driver for each CUDA major. From NVIDIA's table of CUDA compatibility.
pub const MIN_DRIVER: [(u32, &str); 3] = [(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// From this release on, the oldest processor, in tenths of a compute capability. From NVIDIA's support matrix.
pub const MIN_COMPUTE_CAPABILITY: [(Version, u32); 2] = [(Version::new(9, 0, 0), 50), (Version::new(9, 11, 0), 75)];

/// Something that is known to be wrong with some releases.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownIssue {
    /// The first release that has it.
    pub from: Version,
    /// The first release that has it no more.
    pub fixed_in: Version,
    /// What is wrong.
    pub what: &'static str,
}

/// The faults that NVIDIA's release notes own to, of those that users of many frameworks meet.
pub const KNOWN_ISSUES: [KnownIssue; 5] = [
    KnownIssue {
        from: Version::new(9, 10, 0),
        fixed_in: Version::new(9, 10, 1),
        what: "the order of an enum's values differs from every other release's",
    },
    KnownIssue {
        from: Version::new(9, 0, 0),
        fixed_in: Version::new(9, 10, 1),
        what: "fails with cuBLASLt 12.9 or newer and several GPUs in one process",
    },
    KnownIssue {
        from: Version::new(9, 8, 0),
        fixed_in: Version::new(9, 11, 0),
        what: "3-d convolutions in bfloat16 can be wrong",
    },
    KnownIssue {
        from: Version::new(9, 11, 0),
        fixed_in: Version::new(9, 15, 0),
        what: "3-d convolutions in bfloat16 are slow in memory",
    },
    KnownIssue {
        from: Version::new(9, 10, 2),
        fixed_in: Version::new(9, 15, 1),
        what: "3-d convolutions in TF32 can be wrong",
    },
];

/// Has this release this library?
#[must_use]
pub fn has_library(version: Version, library: Library) -> bool {
    LIBRARY_SINCE.iter().all(|(later, since)| *later != library || version >= *since)
}

/// The oldest processor that a release has kernels for, in tenths of a compute capability.
#[must_use]
pub fn min_compute_capability(version: Version) -> u32 {
    MIN_COMPUTE_CAPABILITY.iter().rev().find(|(since, _)| version >= *since).map_or(50, |(_, processor)| *processor)
}

/// What is known to be wrong with a release.
pub fn known_issues(version: Version) -> impl Iterator<Item = &'static KnownIssue> {
    KNOWN_ISSUES.iter().filter(move |fault| fault.from <= version && version < fault.fixed_in)
}
