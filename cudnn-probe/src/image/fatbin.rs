//! Reads compute capabilities and the CUDA release from the GPU code of a library (`.nv_fatbin`).
//!
//! The header of each entry contains a code version. PTX 7.x comes from CUDA 11, 8.x from CUDA 12, and 9.x from CUDA
//! 13, and the minor version implies the CUDA release. SASS for compute capabilities up to 9.0 uses a different format
//! from CUDA 13 on. (Verified with every library with GPU code of 9.0.0, 9.10.2, 9.12, 9.19, 9.20, 9.27 and 9.28, for
//! CUDA 12 and CUDA 13.)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use object::read::ReadRef;

use crate::release_facts::TegraChip;

#[cfg(feature = "serde")]
crate::portable!(GpuCode);

/// The number of entries to read for the CUDA version. Entries are megabytes apart, which is slow on some disks. In
/// most libraries, PTX occurs among the first ten entries. Without PTX, CUDA 12 can be distinguished from 13, but not
/// from 11.
const MAX_CUDA_ENTRIES: usize = 16;
/// The number of entries to read for compute capabilities. The largest library has about 6500.
const MAX_ENTRIES: usize = 1 << 16;
/// The possible alignments of a container. Within an object file, containers are aligned to 8 bytes. Between object
/// files, the alignment of the section applies: 8 on Linux x86-64, 16 on Windows, and 256 on Linux aarch64.
const ALIGNMENTS: [u64; 3] = [8, 16, 256];

/// The header of an entry.
struct Entry {
    is_ptx: bool,
    major: u64,
    minor: u64,
    /// In tenths, such as 90 for 9.0.
    compute_capability: u32,
}

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

/// The CUDA release that the first entries indicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuda {
    pub(crate) major: Option<u32>,
    pub(crate) at_most: Option<u32>,
    /// The minor version, if the PTX version identifies a single CUDA release.
    pub(crate) minor: Option<u32>,
}

/// Returns the CUDA version that compiled the GPU code in this range of the file.
pub(crate) fn cuda<'a>(range: Range<u64>, data: impl ReadRef<'a>) -> Cuda {
    let mut cuda = Cuda::default();
    for entry in Entries::new(range, data).take(MAX_CUDA_ENTRIES) {
        match entry {
            Entry { is_ptx: true, major: major @ 7..=9, minor, .. } => {
                cuda.major = u32::try_from(major + 4).ok();
                cuda.minor = cuda_minor(major, minor);
                break;
            }
            Entry { is_ptx: false, major: 1, minor: 8, compute_capability: 0..=90 } => cuda.major = Some(13),
            Entry { is_ptx: false, major: 1, minor: 0..8, .. } => cuda.at_most = Some(12),
            _ => {}
        }
    }
    cuda
}

/// Returns the CUDA minor version for a PTX version, if it is unambiguous. Source: the release table in the PTX manual.
fn cuda_minor(major: u64, minor: u64) -> Option<u32> {
    match (major, minor) {
        // 11.8 and all releases from 12.0 on. PTX 8.5 belongs to both 12.5 and 12.6.
        (7, 8) => Some(8),
        (8, 0..=4) => u32::try_from(minor).ok(),
        (8, 6) => Some(7),
        (8, 7) => Some(8),
        (8, 8) => Some(9),
        (9, _) => u32::try_from(minor).ok(),
        _ => None,
    }
}

/// Returns all targets of the GPU code in this range of the file.
pub(crate) fn targets<'a>(range: Range<u64>, data: impl ReadRef<'a>) -> BTreeSet<GpuCode> {
    let entries = Entries::new(range, data).take(MAX_ENTRIES);
    entries.map(|Entry { is_ptx, compute_capability, .. }| GpuCode { compute_capability, is_ptx }).collect()
}

/// Returns the main targets: those with at least a quarter as many entries as the most frequent target. Statically
/// linked libraries add single entries for other targets.
pub(crate) fn main_targets<'a>(range: Range<u64>, data: impl ReadRef<'a>) -> BTreeSet<GpuCode> {
    let mut counts: BTreeMap<GpuCode, usize> = BTreeMap::new();
    for Entry { is_ptx, compute_capability, .. } in Entries::new(range, data).take(MAX_ENTRIES) {
        *counts.entry(GpuCode { compute_capability, is_ptx }).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    counts.into_iter().filter(|(_, count)| count * 4 >= most).map(|(target, _)| target).collect()
}

/// Iterates over the entries of all containers, until the end or the first malformed container.
struct Entries<R> {
    range: Range<u64>,
    data: R,
    offset: u64,
    container_end: u64,
}

impl<'a, R: ReadRef<'a>> Entries<R> {
    fn new(range: Range<u64>, data: R) -> Self {
        let (offset, container_end) = (range.start, range.start);
        Entries { range, data, offset, container_end }
    }

    /// Returns the header of the next container, and moves the current offset there.
    fn next_container(&mut self) -> Option<&'a [u8]> {
        const MAGIC: u64 = 0xba55_ed50;
        for alignment in ALIGNMENTS {
            let after = self.container_end.saturating_sub(self.range.start).saturating_add(alignment - 1);
            self.offset = self.range.start.saturating_add(after & !(alignment - 1));
            if self.offset >= self.range.end {
                return None;
            }
            let header = self.data.read_bytes_at(self.offset, 16).ok()?;
            if number(header, 0..4)? == MAGIC {
                return Some(header);
            }
        }
        None
    }
}

impl<'a, R: ReadRef<'a>> Iterator for Entries<R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        const PTX: u64 = 1;
        const SASS: u64 = 2;
        // The loop is bounded because it skips unknown entries and empty containers.
        for _ in 0..MAX_ENTRIES {
            if self.offset >= self.container_end {
                let container = self.next_container()?;
                self.container_end = self.offset.checked_add(16)?.checked_add(number(container, 8..16)?)?;
                self.offset = self.offset.checked_add(number(container, 6..8)?.max(16))?;
                continue;
            }
            let entry = self.data.read_bytes_at(self.offset, 32).ok()?;
            let kind = number(entry, 0..2)?;
            let length = number(entry, 4..8)?.max(16).checked_add(number(entry, 8..16)?)?;
            self.offset = self.offset.checked_add(length)?;
            if matches!(kind, PTX | SASS) {
                return Some(Entry {
                    is_ptx: kind == PTX,
                    major: number(entry, 26..28)?,
                    minor: number(entry, 24..26)?,
                    compute_capability: u32::try_from(number(entry, 28..32)?).ok()?,
                });
            }
        }
        None
    }
}

/// Reads a little-endian number from a header.
fn number(header: &[u8], bytes: Range<usize>) -> Option<u64> {
    Some(header.get(bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a container with one entry without code.
    fn container(kind: u16, (major, minor): (u16, u16), compute_capability: u16) -> Vec<u8> {
        let header = [0xed50, 0xba55, 1, 16, 32, 0, 0, 0];
        let entry = [kind, 0x101, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, minor, major, compute_capability, 0];
        header.iter().chain(&entry).flat_map(|word: &u16| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_version_of_the_code_implies_the_cuda_release() {
        const PTX: u16 = 1;
        const SASS: u16 = 2;
        let cuda_of = |code: &[u8]| {
            let Cuda { major, at_most, minor } = cuda(0..code.len() as u64, code);
            (major, at_most, minor)
        };
        for (kind, version, compute_capability, expected) in [
            (PTX, (7, 7), 75, (Some(11), None, None)),
            (PTX, (7, 8), 75, (Some(11), None, Some(8))),
            (PTX, (8, 0), 75, (Some(12), None, Some(0))),
            (PTX, (8, 4), 75, (Some(12), None, Some(4))),
            (PTX, (8, 5), 75, (Some(12), None, None)),
            (PTX, (8, 6), 75, (Some(12), None, Some(7))),
            (PTX, (8, 7), 75, (Some(12), None, Some(8))),
            (PTX, (8, 8), 75, (Some(12), None, Some(9))),
            (PTX, (8, 9), 75, (Some(12), None, None)),
            (PTX, (9, 3), 75, (Some(13), None, Some(3))),
            (PTX, (6, 5), 75, (None, None, None)),
            (SASS, (1, 7), 90, (None, Some(12), None)),
            (SASS, (1, 8), 90, (Some(13), None, None)),
            (SASS, (1, 8), 100, (None, None, None)),
            (3, (8, 8), 75, (None, None, None)),
        ] {
            let code = container(kind, version, compute_capability);
            assert_eq!(cuda_of(&code), expected, "{kind} {version:?} {compute_capability}");
        }
        // PTX is better evidence than SASS, and later entries are not read.
        let (sass, ptx, newer) = (container(SASS, (1, 7), 90), container(PTX, (8, 8), 90), container(PTX, (9, 0), 90));
        assert_eq!(cuda_of(&[sass, ptx, newer].concat()), (Some(12), Some(12), Some(9)));
    }

    #[test]
    fn every_target_of_every_container_is_listed() {
        // 0x114 and 0x0f0 have bits in common.
        let code = [container(2, (1, 7), 90), container(1, (8, 8), 90), container(2, (1, 7), 0x114)].concat();
        let reported =
            |end: u64| -> Vec<String> { targets(0..end, &code[..]).iter().map(GpuCode::to_string).collect() };
        assert_eq!(reported(144), ["9.0", "9.0+PTX", "27.6"]);
        assert_eq!(reported(96), ["9.0", "9.0+PTX"]);
        assert_eq!(reported(0), [""; 0]);
    }

    #[test]
    fn a_container_of_another_object_file_follows_behind_padding() {
        let padded = |code: Vec<u8>| [code.clone(), vec![0; code.len().next_multiple_of(256) - code.len()]].concat();
        let (first, second, third) = (container(2, (1, 7), 80), container(2, (1, 7), 90), container(1, (8, 8), 90));
        let reported = |code: &[u8]| -> Vec<String> {
            targets(0..code.len() as u64, code).iter().map(GpuCode::to_string).collect()
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
