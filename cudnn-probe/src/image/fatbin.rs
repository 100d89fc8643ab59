//! The GPU code in a library (`.nv_fatbin`): for which processors, and with which CUDA it was made.
//!
//! Each entry's header states the version of its code. PTX 7.x comes with CUDA 11, 8.x with 12 and 9.x with 13, and its
//! second number tells the release. Machine code for processors up to 9.0 is in one format up to CUDA 12, and in another
//! from 13 on. (Seen in every library with GPU code of 9.0.0, 9.10.2, 9.12, 9.19, 9.20, 9.27 and 9.28, cu12 and cu13.)

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use object::read::ReadRef;

/// How many entries are looked at for the CUDA major: each is megabytes away from the one before, on a disk that may be
/// slow. In most libraries the first PTX is among the first ten; where there is none, CUDA 12 is told from 13, but not
/// from 11.
const MAX_ENTRIES: usize = 16;
/// How many are looked at for everything. The largest library has some 6500.
const ALL: usize = 1 << 16;

/// One entry's header.
struct Entry {
    is_ptx: bool,
    major: u64,
    minor: u64,
    /// 90 is compute capability 9.0.
    processor: u32,
}

/// A processor that a library has code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuCode {
    /// The compute capability, in tenths: 90 is 9.0.
    pub processor: u32,
    /// PTX, which any newer processor can compile, and not machine code.
    pub is_ptx: bool,
}

impl fmt::Display for GpuCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.processor / 10, self.processor % 10)?;
        if self.is_ptx { f.write_str("+PTX") } else { Ok(()) }
    }
}

/// What the first entries tell of CUDA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuda {
    pub(crate) major: Option<u32>,
    pub(crate) at_most: Option<u32>,
    /// The release, as in 12.9, where the PTX's version belongs to one alone.
    pub(crate) minor: Option<u32>,
}

/// With which CUDA the code in this part of the file was made.
pub(crate) fn cuda<'a>(range: Range<u64>, data: impl ReadRef<'a>) -> Cuda {
    let mut cuda = Cuda::default();
    for entry in Entries::new(range, data).take(MAX_ENTRIES) {
        match entry {
            Entry { is_ptx: true, major: major @ 7..=9, minor, .. } => {
                cuda.major = u32::try_from(major + 4).ok();
                cuda.minor = release(major, minor);
                break;
            }
            Entry { is_ptx: false, major: 1, minor: 8, processor: 0..=90 } => cuda.major = Some(13),
            Entry { is_ptx: false, major: 1, minor: 0..8, .. } => cuda.at_most = Some(12),
            _ => {}
        }
    }
    cuda
}

/// The minor release of CUDA that a version of PTX came with, where it came with one alone. From the PTX manual's table
/// of releases.
fn release(major: u64, minor: u64) -> Option<u32> {
    match (major, minor) {
        // 11.8 and 12.0 on; 8.5 came with 12.5 and 12.6.
        (7, 8) => Some(8),
        (8, 0..=4) => u32::try_from(minor).ok(),
        (8, 6) => Some(7),
        (8, 7) => Some(8),
        (8, 8) => Some(9),
        (9, _) => u32::try_from(minor).ok(),
        _ => None,
    }
}

/// Every processor that the code in this part of the file is for.
pub(crate) fn targets<'a>(range: Range<u64>, data: impl ReadRef<'a>) -> BTreeSet<GpuCode> {
    let entries = Entries::new(range, data).take(ALL);
    entries.map(|Entry { is_ptx, processor, .. }| GpuCode { processor, is_ptx }).collect()
}

/// The entries of all containers, one after the other, up to the end or to what makes no sense.
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

    /// A header, in one piece.
    fn header(&self, length: u64) -> Option<&'a [u8]> {
        self.data.read_bytes_at(self.offset, length).ok()
    }
}

impl<'a, R: ReadRef<'a>> Iterator for Entries<R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        const MAGIC: u64 = 0xba55_ed50;
        const PTX: u64 = 1;
        const MACHINE_CODE: u64 = 2;
        // Bounded, since an entry of another kind, or an empty container, is passed over.
        for _ in 0..ALL {
            if self.offset >= self.container_end {
                // Containers lie one behind the other, on multiples of eight.
                self.offset = self.container_end.checked_next_multiple_of(8)?;
                if self.offset >= self.range.end {
                    return None;
                }
                let container = self.header(16)?;
                if number(container, 0..4)? != MAGIC {
                    return None;
                }
                self.container_end = self.offset.checked_add(16)?.checked_add(number(container, 8..16)?)?;
                self.offset = self.offset.checked_add(number(container, 6..8)?.max(16))?;
                continue;
            }
            let entry = self.header(32)?;
            let kind = number(entry, 0..2)?;
            let length = number(entry, 4..8)?.max(16).checked_add(number(entry, 8..16)?)?;
            self.offset = self.offset.checked_add(length)?;
            if matches!(kind, PTX | MACHINE_CODE) {
                return Some(Entry {
                    is_ptx: kind == PTX,
                    major: number(entry, 26..28)?,
                    minor: number(entry, 24..26)?,
                    processor: u32::try_from(number(entry, 28..32)?).ok()?,
                });
            }
        }
        None
    }
}

/// A little-endian number in a header.
fn number(header: &[u8], bytes: Range<usize>) -> Option<u64> {
    Some(header.get(bytes)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
