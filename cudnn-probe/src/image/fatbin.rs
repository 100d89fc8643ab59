//! Reads compute capabilities and the CUDA release from the GPU code of a library (`.nv_fatbin`).
//!
//! The header of each entry contains a code version. PTX 7.x comes from CUDA 11, 8.x from CUDA 12, and 9.x from CUDA
//! 13, and the minor version implies the CUDA release. SASS for compute capabilities up to 9.0 uses a different format
//! from CUDA 13 on. (Verified with every library with GPU code of 9.0.0, 9.10.2, 9.12, 9.19, 9.20, 9.27 and 9.28, for
//! CUDA 12 and CUDA 13.)

use std::ops::Range;

use super::file_data::number;
use super::tables::Data;

/// The number of entries to read for the CUDA version. Entries are megabytes apart, which is slow on some disks. In
/// most libraries, PTX occurs among the first ten entries. Without PTX, CUDA 12 can be distinguished from 13, but not
/// from 11.
const MAX_CUDA_ENTRIES: usize = 16;
/// The number of entries to read for compute capabilities. The largest library has about 6500.
pub(super) const MAX_ENTRIES: usize = 1 << 16;
/// The possible alignments of a container. Within an object file, containers are aligned to 8 bytes. Between object
/// files, the alignment of the section applies: 8 on Linux x86-64, 16 on Windows, and 256 on Linux aarch64.
const ALIGNMENTS: [u64; 3] = [8, 16, 256];

/// The header of an entry.
pub(super) struct FatbinEntry {
    pub(super) is_ptx: bool,
    major: u64,
    minor: u64,
    /// In tenths, such as 90 for 9.0.
    pub(super) compute_capability: u32,
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
pub(crate) fn cuda(range: Range<u64>, data: Data<'_>) -> Cuda {
    let mut cuda = Cuda::default();
    for entry in FatbinEntries::new(range, data).take(MAX_CUDA_ENTRIES) {
        match entry {
            FatbinEntry { is_ptx: true, major: major @ 7..=9, minor, .. } => {
                cuda.major = u32::try_from(major + 4).ok();
                cuda.minor = cuda_minor(major, minor);
                break;
            }
            FatbinEntry { is_ptx: false, major: 1, minor: 8, compute_capability: 0..=90 } => cuda.major = Some(13),
            FatbinEntry { is_ptx: false, major: 1, minor: 0..8, .. } => cuda.at_most = Some(12),
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

/// Iterates over the entries of all containers, until the end or the first malformed container.
pub(super) struct FatbinEntries<'a> {
    range: Range<u64>,
    data: Data<'a>,
    offset: u64,
    container_end: u64,
}

impl<'a> FatbinEntries<'a> {
    pub(super) fn new(range: Range<u64>, data: Data<'a>) -> Self {
        let (offset, container_end) = (range.start, range.start);
        FatbinEntries { range, data, offset, container_end }
    }

    /// Returns the header of the next container, and moves the current offset there.
    fn next_container(&mut self) -> Option<[u8; 16]> {
        const MAGIC: u64 = 0xba55_ed50;
        for alignment in ALIGNMENTS {
            let after = self.container_end.saturating_sub(self.range.start).saturating_add(alignment - 1);
            self.offset = self.range.start.saturating_add(after & !(alignment - 1));
            if self.offset >= self.range.end {
                return None;
            }
            let header = self.data.array(self.offset)?;
            if number(&header, 0..4) == MAGIC {
                return Some(header);
            }
        }
        None
    }
}

impl Iterator for FatbinEntries<'_> {
    type Item = FatbinEntry;

    fn next(&mut self) -> Option<FatbinEntry> {
        const PTX: u64 = 1;
        const SASS: u64 = 2;
        // The loop is bounded because it skips unknown entries and empty containers.
        for _ in 0..MAX_ENTRIES {
            if self.offset >= self.container_end {
                let container = self.next_container()?;
                self.container_end = self.offset.checked_add(16)?.checked_add(number(&container, 8..16))?;
                self.offset = self.offset.checked_add(number(&container, 6..8).max(16))?;
                continue;
            }
            let entry: [u8; 32] = self.data.array(self.offset)?;
            let kind = number(&entry, 0..2);
            let length = number(&entry, 4..8).max(16).checked_add(number(&entry, 8..16))?;
            self.offset = self.offset.checked_add(length)?;
            if matches!(kind, PTX | SASS) {
                return Some(FatbinEntry {
                    is_ptx: kind == PTX,
                    major: number(&entry, 26..28),
                    minor: number(&entry, 24..26),
                    compute_capability: u32::try_from(number(&entry, 28..32)).ok()?,
                });
            }
        }
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::file_data::tests::file_of;
    use super::*;

    /// Creates a container with one entry without code.
    pub(crate) fn container(kind: u16, (major, minor): (u16, u16), compute_capability: u16) -> Vec<u8> {
        let header = [0xed50, 0xba55, 1, 16, 32, 0, 0, 0];
        let entry = [kind, 0x101, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, minor, major, compute_capability, 0];
        header.iter().chain(&entry).flat_map(|word: &u16| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_version_of_the_code_implies_the_cuda_release() {
        const PTX: u16 = 1;
        const SASS: u16 = 2;
        let cuda_of = |code: &[u8]| {
            let Cuda { major, at_most, minor } = cuda(0..code.len() as u64, &file_of(code));
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
}
