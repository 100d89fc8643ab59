//! Encodes and decodes page lists.
//!
//! Numbers are little-endian. A list file contains, in order:
//! - `cuDNN pages 1\r\n\x1a`
//! - the installation and the program's directory, both preceded by a length (4 bytes); empty for no program
//! - the number of files (4 bytes)
//! - per file: the path, size (8), time (8), the number of ranges (4), and per range the first page and the number of
//!   pages (4, 4), in units of 4 KiB
//! - the 64-bit FNV-1a hash of all preceding bytes
//!
//! The hash detects accidental damage only, because an incorrect list merely makes the kernel read too much.

use std::path::{Path, PathBuf};

use cudnn_os::files::path_from_bytes;

use super::{FilePages, PageList};

const MAGIC: &[u8; 16] = b"cuDNN pages 1\r\n\x1a";

/// The unit of ranges in bytes.
pub(super) const UNIT: u64 = 4096;

/// The maximum number of bytes in a list. A start of cuDNN maps about 120 MB.
const MAX_BYTES: u64 = 1 << 30;

pub(super) fn encode(list: &PageList) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    block(&mut bytes, &list.installation);
    block(&mut bytes, list.program.as_deref().unwrap_or(Path::new("")));
    bytes.extend(number(list.files.len()));
    for file in &list.files {
        block(&mut bytes, &file.path);
        bytes.extend(file.size.to_le_bytes());
        bytes.extend(file.modified.to_le_bytes());
        bytes.extend(number(file.ranges.len()));
        for range in &file.ranges {
            let pages = range.end.saturating_sub(range.start).div_ceil(UNIT);
            for value in [range.start / UNIT, pages] {
                bytes.extend(u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
    }
    bytes.extend(checksum(&bytes).to_le_bytes());
    bytes
}

/// Returns `None` if the content is damaged.
pub(super) fn decode(content: &[u8]) -> Option<PageList> {
    let (content, sum) = content.split_last_chunk()?;
    if u64::from_le_bytes(*sum) != checksum(content) {
        return None;
    }
    let mut rest = Reader(content.strip_prefix(MAGIC)?);
    let installation = rest.path()?;
    let program = Some(rest.path()?).filter(|program| !program.as_os_str().is_empty());
    let (mut files, mut total) = (Vec::new(), 0);
    for _ in 0..rest.u32()? {
        let (path, size, modified) = (rest.path()?, u64::from_le_bytes(rest.take()?), i64::from_le_bytes(rest.take()?));
        let mut ranges = Vec::new();
        let mut end = 0;
        for _ in 0..rest.u32()? {
            let (start, pages) = (u64::from(rest.u32()?) * UNIT, u64::from(rest.u32()?) * UNIT);
            // Ranges must not overlap or extend past the end of the file.
            if start < end || start + pages > size.next_multiple_of(UNIT) {
                return None;
            }
            end = start + pages;
            total += pages;
            ranges.push(start..end);
        }
        files.push(FilePages { path, size, modified, ranges });
    }
    (rest.0.is_empty() && total <= MAX_BYTES).then_some(PageList { installation, program, files })
}

/// Computes FNV-1a.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn number(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

fn block(bytes: &mut Vec<u8>, path: &Path) {
    let path = path.as_os_str().as_encoded_bytes();
    bytes.extend(number(path.len()));
    bytes.extend(path);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn path(&mut self) -> Option<PathBuf> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (path, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(path_from_bytes(path))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn list() -> PageList {
        let odd = path_from_bytes(b"/no \xff text\n/libcudnn_graph.so.9");
        let file = |path, ranges| FilePages { path, size: 9_000_000_000, modified: -7, ranges };
        PageList {
            installation: "/opt/cudnn".into(),
            program: Some("/usr/bin".into()),
            files: vec![file(odd, vec![0..4096, 8192..1 << 29]), file("/b".into(), Vec::new())],
        }
    }

    #[test]
    fn decoding_reverses_encoding() {
        assert_eq!(decode(&encode(&list())).unwrap(), list());
        let general = list().for_all_programs();
        assert_eq!(decode(&encode(&general)).unwrap(), general);
        assert_ne!(general.file_name(), list().file_name());
    }

    #[test]
    fn invalid_ranges_are_rejected() {
        let changed = |change: fn(&mut FilePages)| {
            let mut list = list();
            change(list.files.first_mut().unwrap());
            decode(&encode(&list))
        };
        assert!(changed(|_| {}).is_some());
        assert_eq!(changed(|file| file.ranges.push(4096..8192)), None, "out of order");
        assert_eq!(changed(|file| file.ranges.push(8192..12288)), None, "twice");
        assert_eq!(changed(|file| file.size = 1 << 28), None, "behind the end");
        assert_eq!(
            changed(|file| (file.size, file.ranges) = (3 << 30, std::iter::once(0..2 << 30).collect())),
            None,
            "too much"
        );
        // The last page may be partial.
        assert!(changed(|file| (file.size, file.ranges) = (4097, std::iter::once(0..8192).collect())).is_some());
    }

    #[test]
    fn damaged_lists_are_rejected() {
        let content = encode(&list());
        for length in 0..content.len() {
            assert_eq!(decode(content.get(..length).unwrap()), None, "{length}");
        }
        for place in 0..content.len() {
            let mut damaged = content.clone();
            *damaged.get_mut(place).unwrap() ^= 1;
            assert_eq!(decode(&damaged), None, "{place}");
        }
        // Counts and lengths that exceed the actual content, with a valid checksum.
        let end = content.len() - 8;
        for place in 0..end {
            let mut hostile = content.get(..end).unwrap().to_vec();
            hostile.get_mut(place..(place + 4).min(end)).unwrap().fill(0xff);
            hostile.extend(checksum(&hostile).to_le_bytes());
            let _ = decode(&hostile);
        }
    }
}
