//! A file read in blocks: what describes a library lies in a few places, each asked for many small pieces.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The length of a block, in bytes.
const BLOCK: usize = 8 << 10;
/// What a block's start is a multiple of: half a block, so that a piece is rarely cut by its end.
const STEP: u64 = 4 << 10;

/// A file, of which the block that was read last is kept. Moving about costs nothing.
#[derive(Debug)]
pub(crate) struct Blocks {
    file: File,
    length: u64,
    position: u64,
    block: Vec<u8>,
    start: u64,
}

impl Blocks {
    /// The file, whose length is known.
    pub(crate) fn new(file: File, length: u64) -> Self {
        Blocks { file, length, position: 0, block: Vec::new(), start: 0 }
    }

    /// What of the kept block lies at the position; nothing when another block is to be read.
    fn kept(&self) -> &[u8] {
        let inside = self.position.checked_sub(self.start).and_then(|inside| usize::try_from(inside).ok());
        inside.and_then(|inside| self.block.get(inside..)).unwrap_or_default()
    }
}

impl Read for Blocks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.kept().is_empty() {
            let start = self.position - self.position % STEP;
            self.file.seek(SeekFrom::Start(start))?;
            self.block.clear();
            self.start = start;
            Read::by_ref(&mut self.file).take(BLOCK as u64).read_to_end(&mut self.block)?;
        }
        let read = self.kept().read(into)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Blocks {
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
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says so by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_the_files_own_wherever_it_lies() {
        let bytes: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("cudnn-probe-blocks-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let mut blocks = Blocks::new(File::open(&path).unwrap(), bytes.len() as u64);
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
