//! Reads a file in blocks: what describes a library is in a few places, and each is read in many small pieces.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The length of a block, in bytes.
const BLOCK_LEN: usize = 8 << 10;
/// BlockReader start at multiples of half a block, so that the end of a block rarely cuts a piece.
const ALIGNMENT: u64 = 4 << 10;

/// A file, and the block that was read last. Seeking costs nothing.
#[derive(Debug)]
pub(crate) struct BlockReader {
    file: File,
    length: u64,
    position: u64,
    block: Vec<u8>,
    start: u64,
}

impl BlockReader {
    /// A reader of this file, which has this length.
    pub(crate) fn new(file: File, length: u64) -> Self {
        BlockReader { file, length, position: 0, block: Vec::new(), start: 0 }
    }

    /// The part of the block from the position on. It is empty if another block must be read.
    fn buffered(&self) -> &[u8] {
        let inside = self.position.checked_sub(self.start).and_then(|inside| usize::try_from(inside).ok());
        inside.and_then(|inside| self.block.get(inside..)).unwrap_or_default()
    }
}

impl Read for BlockReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.buffered().is_empty() {
            let start = self.position - self.position % ALIGNMENT;
            self.file.seek(SeekFrom::Start(start))?;
            self.block.clear();
            self.start = start;
            Read::by_ref(&mut self.file).take(BLOCK_LEN as u64).read_to_end(&mut self.block)?;
        }
        let read = self.buffered().read(into)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for BlockReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_read_correctly_wherever_it_is() {
        let bytes: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("cudnn-probe-blocks-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let mut blocks = BlockReader::new(File::open(&path).unwrap(), bytes.len() as u64);
        std::fs::remove_file(&path).unwrap();
        for start in [0, 1, 4095, 4096, 8190, 12_288, 19_990, 5, 20_000, 30_000] {
            for length in [0, 1, 16, 5000, 20_000] {
                blocks.seek(SeekFrom::Start(start)).unwrap();
                let mut piece = Vec::new();
                Read::by_ref(&mut blocks).take(length).read_to_end(&mut piece).unwrap();
                let start = (start as usize).min(bytes.len());
                let end = (start + length as usize).min(bytes.len());
                assert_eq!(piece, bytes[start..end], "{start} {length}");
            }
        }
        assert_eq!(blocks.seek(SeekFrom::End(-1)).unwrap(), 19_999);
        assert!(blocks.seek(SeekFrom::Current(-20_000)).is_err());
    }
}
