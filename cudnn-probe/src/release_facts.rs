//! Lists facts about cuDNN releases that cannot be read from an installation. All facts have a source.

use crate::library::Library;
use crate::version::Version;

/// The libraries that are missing in 9.0.0, and the first release with each of them. Source: the file lists of the
/// wheels of every minor release of 9, for CUDA 12 and CUDA 13.
pub const LIBRARY_SINCE: &[(Library, Version)] =
    &[(Library::EnginesTensorIr, Version::new(9, 21, 0)), (Library::Ext, Version::new(9, 22, 0))];

/// The first release with JIT-only packages. Source: the versions of the wheels nvidia-cudnn-jit-cu12 and
/// nvidia-cudnn-jit-cu13.
pub const JIT_ONLY_SINCE: Version = Version::new(9, 12, 0);

/// The minimum Linux driver per CUDA major version. Source: the CUDA compatibility table of NVIDIA.
pub const MIN_DRIVER: &[(u32, &str)] = &[(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// The minimum Windows driver per CUDA major version, as of 2026-11-22. Sources:
///
/// - 11 and 12: the table of minimum drivers for minor version compatibility in NVIDIA's CUDA release notes
///   (<https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/>), as quoted by several public documents. The release
///   notes themselves were not checked. For 12, NVIDIA's installer of 12.0.1 contains driver 528.33, while quotations
///   of an older "CUDA Compatibility" list 527.41.
/// - 13: <https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html>, which lists 580 for
///   Linux and Windows in one column, without a separate number for Windows. It was not tested that driver 580 for
///   Windows runs CUDA 13.
pub const MIN_WINDOWS_DRIVER: &[(u32, &str)] = &[(11, "452.39"), (12, "528.33"), (13, "580")];

/// The minimum compute capability (in tenths), starting with these releases. Source: the support matrix of NVIDIA.
pub const MIN_COMPUTE_CAPABILITY: &[(Version, u32)] = &[(Version::new(9, 0, 0), 50), (Version::new(9, 11, 0), 75)];

/// The CUDA major version of cuDNN 9 in JetPack packages, starting with these major releases of L4T (Jetson Linux).
/// Older releases contain cuDNN 8. Source: NVIDIA's pages on JetPack 6 (L4T 36, cuDNN 9.3.0.75) and JetPack 7 (L4T 38
/// and 39, cuDNN 9.20.0.46 in 39.2), as of November 2026. This was not verified on a Jetson.
pub const JETPACK_CUDA: &[(u32, u32)] = &[(36, 12), (38, 13)];

/// A chip of NVIDIA's Tegra family, which combines CPU and GPU. Jetson modules contain such chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TegraChip {
    /// The name in the device tree without `nvidia,`, such as `tegra234`.
    pub name: &'static str,
    /// The number in `/sys/devices/soc0/soc_id`.
    pub id: u32,
    /// The product that contains the chip, such as `Jetson Orin`.
    pub product: &'static str,
    /// The compute capability of the GPU in tenths, such as 87 for 8.7. Thor is 10.1 in CUDA 12, and 11.0 from CUDA 13
    /// on.
    pub compute_capabilities: &'static [u32],
    /// The first CUDA major version with kernels for this chip in NVIDIA's server builds (SBSA), such as the wheels.
    pub server_builds_since: Option<u32>,
}

/// The Tegra chips that CUDA supports, newest first. Sources: Linux device trees (names), `soc/tegra/fuse.h` of Linux
/// (numbers), NVIDIA's list of CUDA GPUs (compute capabilities), and docs/measurements/aarch64-gpu-code.md (kernels in
/// server builds).
pub const TEGRA_CHIPS: &[TegraChip] = &[
    TegraChip {
        name: "tegra264",
        id: 0x26,
        product: "Jetson Thor",
        compute_capabilities: &[110, 101],
        server_builds_since: Some(13),
    },
    TegraChip {
        name: "tegra234",
        id: 0x23,
        product: "Jetson Orin",
        compute_capabilities: &[87],
        server_builds_since: None,
    },
    TegraChip {
        name: "tegra194",
        id: 0x19,
        product: "Jetson Xavier",
        compute_capabilities: &[72],
        server_builds_since: None,
    },
    TegraChip {
        name: "tegra186",
        id: 0x18,
        product: "Jetson TX2",
        compute_capabilities: &[62],
        server_builds_since: None,
    },
    TegraChip {
        name: "tegra210",
        id: 0x21,
        product: "Jetson Nano or TX1",
        compute_capabilities: &[53],
        server_builds_since: None,
    },
];

impl TegraChip {
    /// Returns the chip with a GPU of this compute capability (in tenths), which is unique.
    #[must_use]
    pub fn with_compute_capability(compute_capability: u32) -> Option<&'static TegraChip> {
        TEGRA_CHIPS.iter().find(|chip| chip.compute_capabilities.contains(&compute_capability))
    }
}

/// A file with known issues of releases and rules that avoid them, in JSON. `cudnn-doctor` and the layer `errata` use it.
/// Sources: the page that each issue names, as of its date.
pub const RELEASE_FACTS: &str = include_str!("release_facts.json");

/// Returns whether this release contains this library.
#[must_use]
pub fn has_library(version: Version, library: Library) -> bool {
    LIBRARY_SINCE.iter().all(|(other, since)| *other != library || version >= *since)
}

/// Returns whether the graph library or the shim of this release opens this library.
///
/// `libcudnn_graph.so.9` of 9.20 opens the tensor-IR engines, although no wheel of 9.20 contains them. ld.so may then find
/// the library of another installation.
#[must_use]
pub fn opens_library(version: Version, library: Library) -> bool {
    has_library(version, library) || (library == Library::EnginesTensorIr && version >= Version::new(9, 20, 0))
}

/// Returns the minimum compute capability of a release in tenths, such as 75 for 7.5.
#[must_use]
pub fn min_compute_capability(version: Version) -> u32 {
    MIN_COMPUTE_CAPABILITY.iter().rev().find(|(since, _)| version >= *since).map_or(50, |(_, capability)| *capability)
}

/// Returns the CUDA major version of cuDNN 9 in JetPack packages for this major release of L4T, or `None` if it
/// contains an older cuDNN.
#[must_use]
pub fn jetpack_cuda(l4t_major: u32) -> Option<u32> {
    JETPACK_CUDA.iter().rev().find(|(since, _)| l4t_major >= *since).map(|(_, cuda_major)| *cuda_major)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_holds_from_its_release_on_and_until_the_release_that_changes_it() {
        // Fields: the release, the newer libraries that it contains, and the compute capability.
        for (version, has_tensor_ir, has_ext, capability) in [
            ((8, 9, 7), false, false, 50),
            ((9, 0, 0), false, false, 50),
            ((9, 10, 2), false, false, 50),
            ((9, 11, 0), false, false, 75),
            ((9, 20, 9), false, false, 75),
            ((9, 21, 0), true, false, 75),
            ((9, 22, 0), true, true, 75),
        ] {
            let version = Version::new(version.0, version.1, version.2);
            assert_eq!(has_library(version, Library::EnginesTensorIr), has_tensor_ir, "{version}");
            assert_eq!(has_library(version, Library::Ext), has_ext, "{version}");
            assert!(has_library(version, Library::Graph), "{version}");
            assert_eq!(min_compute_capability(version), capability, "{version}");
        }
    }

    #[test]
    fn jetpack_has_cudnn_9_from_l4t_36_on() {
        for (l4t, cuda) in [(32, None), (35, None), (36, Some(12)), (37, Some(12)), (38, Some(13)), (39, Some(13))] {
            assert_eq!(jetpack_cuda(l4t), cuda, "{l4t}");
        }
        let chip = |capability| TegraChip::with_compute_capability(capability).map(|chip| chip.product);
        assert_eq!((chip(87), chip(101), chip(110)), (Some("Jetson Orin"), Some("Jetson Thor"), Some("Jetson Thor")));
        assert_eq!((chip(86), chip(90), chip(121)), (None, None, None));
    }
}
