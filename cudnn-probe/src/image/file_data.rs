//! Provides file contents to the `object` crate, which reads many small pieces at a few places. Pieces are read only
//! once and cached.
//!
//! This replaces `object::ReadCache`, because a hash map would noticeably increase the size of the drop-in library.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;

use object::ReadRef;

use cudnn_os::files::read_at;

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
    pieces: Pieces,
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
        FileData { file, length, blocks: RefCell::default(), pieces: Pieces::default() }
    }

    /// Returns the first bytes, at most `size`.
    pub(crate) fn start(&self, size: usize) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.length).unwrap_or(size).min(size);
        self.read(0, size)
    }

    fn read(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        const LEN: u64 = BLOCK_LEN as u64;
        let mut piece = Vec::with_capacity(size);
        let mut blocks = self.blocks.borrow_mut();
        blocks.resize_with(MAX_BLOCKS, Block::default);
        while piece.len() < size {
            let position = offset + piece.len() as u64;
            let number = position / LEN;
            let block = blocks.get_mut((number % MAX_BLOCKS as u64) as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
            if block.number != number || block.bytes.is_empty() {
                block.number = number;
                read_block(&self.file, number * LEN, &mut block.bytes)?;
            }
            let bytes = block.bytes.get((position % LEN) as usize..).filter(|bytes| !bytes.is_empty());
            // Missing bytes mean that the file was truncated in the meantime.
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            piece.extend_from_slice(bytes.get(..size - piece.len()).unwrap_or(bytes));
        }
        Ok(piece)
    }
}

/// Reads a block without `lseek`, because a sandbox may not allow it.
fn read_block(file: &File, start: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    bytes.resize(BLOCK_LEN, 0);
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match read_at(file, rest, start + length as u64) {
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

impl<'a> ReadRef<'a> for &'a FileData {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        // Limit the allocation to the size of the file, even if the file contains a wrong size.
        if offset.checked_add(size).ok_or(())? > self.length {
            return Err(());
        }
        let piece = self.read(offset, usize::try_from(size).map_err(drop)?).map_err(drop)?;
        self.pieces.keep(piece.into()).ok_or(())
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let end = range.end.min(self.length);
        let mut piece: Vec<u8> = Vec::new();
        loop {
            let position = range.start.checked_add(piece.len() as u64).ok_or(())?;
            let size = usize::try_from(end.checked_sub(position).filter(|size| *size > 0).ok_or(())?).map_err(drop)?;
            let more = self.read(position, size.min(256)).map_err(drop)?;
            let found = more.iter().position(|byte| *byte == delimiter);
            piece.extend_from_slice(more.get(..found.unwrap_or(more.len())).unwrap_or_default());
            if found.is_some() {
                return self.pieces.keep(piece.into()).ok_or(());
            }
        }
    }
}

/// Pieces with stable addresses, in buckets of 1, 2, 4, ... cells. Buckets never move, and cells are set only once.
#[derive(Debug, Default)]
struct Pieces {
    count: Cell<usize>,
    buckets: [OnceCell<Bucket>; 32],
}

type Bucket = Box<[OnceCell<Box<[u8]>>]>;

impl Pieces {
    fn keep(&self, piece: Box<[u8]>) -> Option<&[u8]> {
        let number = self.count.get() + 1;
        self.count.set(number);
        let bucket = number.ilog2();
        let first = 1 << bucket;
        let cells = self.buckets.get(bucket as usize)?.get_or_init(|| (0..first).map(|_| OnceCell::new()).collect());
        Some(cells.get(number - first)?.get_or_init(|| piece))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_read_correctly_wherever_it_is() {
        let bytes: Vec<u8> = (0..20_000u32).map(|number| (number % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("cudnn-probe-file-data-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let data = FileData::new(File::open(&path).unwrap(), bytes.len() as u64);
        std::fs::remove_file(&path).unwrap();
        let mut kept = Vec::new();
        for start in [0, 1, 4095, 4096, 8190, 12_288, 19_990, 5, 20_000, 30_000] {
            for length in [1, 16, 5000, 20_000] {
                let read = (&data).read_bytes_at(start, length);
                let expected = bytes.get(start as usize..(start + length) as usize);
                assert_eq!(read.ok(), expected, "{start} {length}");
                kept.extend(read.ok().zip(expected));
            }
        }
        // All pieces remain valid.
        assert!(kept.len() > 10 && kept.iter().all(|(read, expected)| read == expected));
        assert_eq!(data.start(30_000).unwrap(), bytes);
        assert!((&data).read_bytes_at(u64::MAX, 2).is_err());
    }

    #[test]
    fn a_piece_can_end_at_a_delimiter() {
        let path = std::env::temp_dir().join(format!("cudnn-probe-delimiter-{}", std::process::id()));
        let mut bytes = vec![b'x'; 10_000];
        bytes.push(0);
        std::fs::write(&path, &bytes).unwrap();
        let data = FileData::new(File::open(&path).unwrap(), bytes.len() as u64);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((&data).read_bytes_at_until(4..20_000, 0), Ok(&bytes[4..10_000]));
        assert_eq!((&data).read_bytes_at_until(4..100, 0), Err(()));
        assert_eq!((&data).read_bytes_at_until(10_001..20_000, 0), Err(()));
    }
}
