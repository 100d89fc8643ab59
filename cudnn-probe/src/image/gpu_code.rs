//! Lists the compute capabilities of the GPU code in a library.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::Path;

use crate::error::ProbeError;
use crate::facts;
use crate::release_facts::TegraChip;

use super::fatbin::{FatbinEntries, FatbinEntry, MAX_ENTRIES};
use super::file::LibraryFile;
use super::tables::Data;

#[cfg(feature = "serde")]
crate::portable!(GpuCode);

/// The target of GPU code: a compute capability, as PTX or SASS. It is displayed as `9.0` or `9.0+PTX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GpuCode {
    /// The compute capability in tenths, such as 90 for 9.0.
    pub compute_capability: u32,
    /// `true` for PTX, which can be compiled for newer GPUs, and `false` for SASS.
    pub is_ptx: bool,
}

impl GpuCode {
    /// Returns whether a GPU with this compute capability (in tenths) can run the code.
    ///
    /// SASS runs on GPUs with the same major version and the same or a newer minor version. Tegra GPUs run only SASS
    /// for the same chip, and other GPUs cannot run that code. PTX can be compiled for all GPUs of the same or a newer
    /// compute capability. Source: the CUDA C++ programming guide, "Binary Compatibility" (not supported for Tegra, or
    /// between desktop and Tegra).
    #[must_use]
    pub fn runs_on(self, compute_capability: u32) -> bool {
        let (code, gpu) = (self.compute_capability, compute_capability);
        if self.is_ptx {
            return code <= gpu;
        }
        match (TegraChip::with_compute_capability(code), TegraChip::with_compute_capability(gpu)) {
            (None, None) => code / 10 == gpu / 10 && code <= gpu,
            (chip, other) => chip == other,
        }
    }
}

impl fmt::Display for GpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.compute_capability / 10, self.compute_capability % 10)?;
        if self.is_ptx { f.write_str("+PTX") } else { Ok(()) }
    }
}

/// Returns the compute capabilities of the GPU code in a library. This reads thousands of small pieces throughout the
/// file. For the largest library, it takes several tens of milliseconds from the page cache, and a second or more from
/// a slow disk.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("GPU code", path, || {
        let file = LibraryFile::open(path)?;
        Ok(file.parse(None)?.gpu_code().map(|range| targets(range, &file.data)).unwrap_or_default())
    })
}

/// Like [`gpu_code`], but returns only the main compute capabilities: those with at least a quarter as many entries as
/// the most frequent one. Libraries of frameworks contain a few kernels for others.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn main_gpu_code(path: &Path) -> Result<BTreeSet<GpuCode>, ProbeError> {
    facts::ask("main GPU code", path, || {
        let file = LibraryFile::open(path)?;
        Ok(file.parse(None)?.gpu_code().map(|range| main_targets(range, &file.data)).unwrap_or_default())
    })
}

/// Returns all targets of the GPU code in this range of the file.
fn targets(range: Range<u64>, data: Data<'_>) -> BTreeSet<GpuCode> {
    let entries = FatbinEntries::new(range, data).take(MAX_ENTRIES);
    entries.map(|FatbinEntry { is_ptx, compute_capability, .. }| GpuCode { compute_capability, is_ptx }).collect()
}

/// Returns the main targets: those with at least a quarter as many entries as the most frequent target. Statically
/// linked libraries add single entries for other targets.
fn main_targets(range: Range<u64>, data: Data<'_>) -> BTreeSet<GpuCode> {
    let mut counts: BTreeMap<GpuCode, usize> = BTreeMap::new();
    for FatbinEntry { is_ptx, compute_capability, .. } in FatbinEntries::new(range, data).take(MAX_ENTRIES) {
        *counts.entry(GpuCode { compute_capability, is_ptx }).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    counts.into_iter().filter(|(_, count)| count * 4 >= most).map(|(target, _)| target).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::container;
    use super::super::file_data::tests::file_of;
    use super::*;

    #[test]
    fn every_target_of_every_container_is_listed() {
        // 0x114 and 0x0f0 have bits in common.
        let code = [container(2, (1, 7), 90), container(1, (8, 8), 90), container(2, (1, 7), 0x114)].concat();
        let reported =
            |end: u64| -> Vec<String> { targets(0..end, &file_of(&code)).iter().map(GpuCode::to_string).collect() };
        assert_eq!(reported(144), ["9.0", "9.0+PTX", "27.6"]);
        assert_eq!(reported(96), ["9.0", "9.0+PTX"]);
        assert_eq!(reported(0), [""; 0]);
    }

    #[test]
    fn a_container_of_another_object_file_follows_behind_padding() {
        let padded = |code: Vec<u8>| [code.clone(), vec![0; code.len().next_multiple_of(256) - code.len()]].concat();
        let (first, second, third) = (container(2, (1, 7), 80), container(2, (1, 7), 90), container(1, (8, 8), 90));
        let reported = |code: &[u8]| -> Vec<String> {
            targets(0..code.len() as u64, &file_of(code)).iter().map(GpuCode::to_string).collect()
        };
        // Two containers of one object file are followed by one of another, as in aarch64 libraries.
        let code = [padded([first.clone(), second.clone()].concat()), third.clone()].concat();
        assert_eq!(reported(&code), ["8.0", "9.0", "9.0+PTX"]);
        // This layout occurs in Windows libraries. The container ends at 56 bytes.
        let mut longer = first.clone();
        longer[8] += 8;
        longer.extend([0; 8 + 8]);
        assert_eq!(reported(&[longer, second].concat()), ["8.0", "9.0"]);
        // The iterator does not search: different padding or other bytes end it.
        assert_eq!(reported(&[padded(first.clone()), vec![0; 256], third.clone()].concat()), ["8.0"]);
        assert_eq!(reported(&[first, vec![1; 200], third].concat()), ["8.0"]);
    }

    #[test]
    fn code_runs_on_gpus_of_its_major_and_on_a_jetson_only_if_it_is_for_that_chip() {
        // Fields: code, GPU, and whether it runs as SASS and as PTX.
        for (code, gpu, sass, ptx) in [
            (80, 80, true, true),
            (80, 86, true, true),
            (86, 80, false, false),
            (80, 90, false, true),
            (120, 121, true, true),
            (80, 87, false, true),
            (86, 87, false, true),
            (87, 87, true, true),
            (87, 89, false, true),
            (70, 72, false, true),
            (72, 75, false, true),
            (110, 110, true, true),
            (100, 110, false, true),
            (120, 110, false, false),
            // CUDA 12 uses a different number for Thor.
            (101, 110, true, true),
            (100, 101, false, true),
        ] {
            let runs = |is_ptx| GpuCode { compute_capability: code, is_ptx }.runs_on(gpu);
            assert_eq!((runs(false), runs(true)), (sass, ptx), "{code} on {gpu}");
        }
    }
}
