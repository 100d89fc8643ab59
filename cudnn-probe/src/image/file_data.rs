//! Reads a file in many small pieces at a few places. Blocks of the file are read once and cached.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;

use cudnn_os::files::read_at;

use crate::error::ProbeError;

/// The block size in bytes.
const BLOCK_LEN: usize = 8 << 10;
/// The number of cached blocks. It is sufficient for the symbol tables of a library, which are read in hash order.
const MAX_BLOCKS: usize = 64;

/// A file that is read on demand.
#[derive(Debug)]
pub(crate) struct FileData {
    file: File,
    length: u64,
    blocks: RefCell<Vec<Block>>,
}

/// A cached block of the file. Each block number has only one possible place.
#[derive(Debug, Default)]
struct Block {
    number: u64,
    bytes: Vec<u8>,
}

impl FileData {
    /// Creates a reader for a file of this length.
    pub(crate) fn new(file: File, length: u64) -> Self {
        FileData { file, length, blocks: RefCell::default() }
    }

    /// Returns the length of the file in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the error of a file that is shorter than the headers specify.
    pub(super) fn truncated(&self, expected_len: u64) -> ProbeError {
        ProbeError::Truncated { expected_len, length: self.length }
    }

    /// Returns the first bytes, at most `size`.
    pub(crate) fn start(&self, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(size).min(size)];
        self.fill(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns bytes of the file, or `None` if they are outside of it or unreadable.
    pub(super) fn bytes(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        // Limit the allocation to the size of the file, even if the file contains a wrong size.
        if offset.checked_add(size)? > self.length {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.fill(offset, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Like [`FileData::bytes`], for a number of bytes that does not depend on the file.
    pub(super) fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(offset, &mut bytes).ok()?;
        Some(bytes)
    }

    /// Returns the bytes up to the first zero in this range, or `None` if there is none.
    pub(super) fn text(&self, range: Range<u64>) -> Option<Vec<u8>> {
        const PART: u64 = 256;
        let end = range.end.min(self.length);
        let mut text = Vec::new();
        for start in (range.start..end).step_by(PART as usize) {
            let part = self.bytes(start, PART.min(end - start))?;
            if let Some(length) = part.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(part.get(..length)?);
                return Some(text);
            }
            text.extend_from_slice(&part);
        }
        None
    }

    fn fill(&self, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        const LEN: u64 = BLOCK_LEN as u64;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut blocks = self.blocks.borrow_mut();
        blocks.resize_with(MAX_BLOCKS, Block::default);
        while !bytes.is_empty() {
            let number = offset / LEN;
            let block = blocks.get_mut((number % MAX_BLOCKS as u64) as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            if block.number != number || block.bytes.is_empty() {
                block.number = number;
                let start = number * LEN;
                read_block(&self.file, start..self.length.min(start + LEN), &mut block.bytes)?;
            }
            let found = block.bytes.get((offset % LEN) as usize..).filter(|found| !found.is_empty());
            // Missing bytes mean that the file was truncated in the meantime.
            let found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = found.len().min(bytes.len());
            let (now, later) = bytes.split_at_mut(length);
            now.copy_from_slice(found.get(..length).unwrap_or_default());
            bytes = later;
            offset += length as u64;
        }
        Ok(())
    }
}

/// Returns a little-endian number from the fields of a header. Missing bytes count as zero.
pub(super) fn number(header: &[u8], bytes: Range<usize>) -> u64 {
    header.get(bytes).unwrap_or_default().iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Reads a block without `lseek`, because a sandbox may not allow it.
fn read_block(file: &File, range: Range<u64>, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize((range.end - range.start) as usize, 0);
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match read_at(file, rest, range.start + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                bytes.clear();
                return Err(error);
            }
        }
    }
    bytes.truncate(length);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
pub(super) mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Returns a file with these contents.
    pub(crate) fn file_of(bytes: &[u8]) -> FileData {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("cudnn-probe-file-data-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let data = FileData::new(File::open(&path).unwrap(), bytes.len() as u64);
        std::fs::remove_file(&path).unwrap();
        data
    }

    #[test]
    fn every_piece_is_read_correctly_wherever_it_is() {
        let bytes: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        let data = file_of(&bytes);
        for start in [0, 1, 4095, 4096, 8190, 12_288, 19_990, 5, 20_000, 30_000] {
            for length in [1, 16, 5000, 20_000] {
                let expected = bytes.get(start as usize..(start + length) as usize);
                assert_eq!(data.bytes(start, length).as_deref(), expected, "{start} {length}");
            }
            let expected = bytes.get(start as usize..start as usize + 16);
            assert_eq!(data.array::<16>(start).as_ref().map(|read| &read[..]), expected, "{start}");
        }
        assert_eq!(data.start(30_000).unwrap(), bytes);
        assert!(data.bytes(u64::MAX, 2).is_none() && data.array::<2>(u64::MAX).is_none());
    }

    #[test]
    fn a_text_ends_at_a_zero() {
        let mut bytes = vec![b'x'; 10_000];
        bytes.push(0);
        let data = file_of(&bytes);
        assert_eq!(data.text(4..20_000).as_deref(), Some(&bytes[4..10_000]));
        assert_eq!(data.text(10_000..20_000).as_deref(), Some(&b""[..]));
        assert_eq!(data.text(4..100), None);
        assert_eq!(data.text(10_001..20_000), None);
    }
}
