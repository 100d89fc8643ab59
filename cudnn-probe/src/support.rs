//! What is known of cuDNN's releases and of the machines that they run on: the one list of facts that no file of an
//! installation states, each with its source.

use crate::{Library, Version};

/// The libraries that were not there from the beginning, and the first release whose wheels have them. From the lists of
/// files of the wheels of every minor release of 9, for CUDA 12 and for CUDA 13.
pub const LATER_LIBRARIES: [(Library, Version); 2] =
    [(Library::EnginesTensorIr, Version::new(9, 21, 0)), (Library::Ext, Version::new(9, 22, 0))];

/// The oldest Linux driver for each CUDA major. From NVIDIA's table of CUDA compatibility.
pub const DRIVERS: [(u32, &str); 3] = [(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// From this release on, the oldest processor, in tenths of a compute capability. From NVIDIA's support matrix.
pub const PROCESSORS: [(Version, u32); 2] = [(Version::new(9, 0, 0), 50), (Version::new(9, 11, 0), 75)];

/// Something that is known to be wrong with some releases.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownFault {
    /// The first release that has it.
    pub from: Version,
    /// The first release that has it no more.
    pub until: Version,
    /// What is wrong.
    pub what: &'static str,
}

/// The faults that NVIDIA's release notes own to, of those that users of many frameworks meet.
pub const KNOWN_FAULTS: [KnownFault; 5] = [
    KnownFault {
        from: Version::new(9, 10, 0),
        until: Version::new(9, 10, 1),
        what: "the order of an enum's values differs from every other release's",
    },
    KnownFault {
        from: Version::new(9, 0, 0),
        until: Version::new(9, 10, 1),
        what: "fails with cuBLASLt 12.9 or newer and several GPUs in one process",
    },
    KnownFault {
        from: Version::new(9, 8, 0),
        until: Version::new(9, 11, 0),
        what: "3-d convolutions in bfloat16 can be wrong",
    },
    KnownFault {
        from: Version::new(9, 11, 0),
        until: Version::new(9, 15, 0),
        what: "3-d convolutions in bfloat16 are slow in memory",
    },
    KnownFault {
        from: Version::new(9, 10, 2),
        until: Version::new(9, 15, 1),
        what: "3-d convolutions in TF32 can be wrong",
    },
];

/// Has this release this library?
#[must_use]
pub fn has(version: Version, library: Library) -> bool {
    LATER_LIBRARIES.iter().all(|(later, since)| *later != library || version >= *since)
}

/// The oldest processor that a release has kernels for, in tenths of a compute capability.
#[must_use]
pub fn oldest_processor(version: Version) -> u32 {
    PROCESSORS.iter().rev().find(|(since, _)| version >= *since).map_or(50, |(_, processor)| *processor)
}

/// What is known to be wrong with a release.
pub fn faults_of(version: Version) -> impl Iterator<Item = &'static KnownFault> {
    KNOWN_FAULTS.iter().filter(move |fault| fault.from <= version && version < fault.until)
}
