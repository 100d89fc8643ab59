//! Whether a library's file contains the name of cuDNN: one that opens it by name must, in full or in parts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use cudnn_probe::parts_without_gpu_code_any;

/// The most bytes that are read. The largest known library has 65 MB besides its GPU code.
const MAX_LEN: u64 = 256 << 20;
const BLOCK_LEN: usize = 1 << 20;
const NAME: &[u8; 5] = b"cudnn";

/// Does the file contain `cudnn`, in its code or data? A run path contains it too, as a directory (`nvidia/cudnn/lib`),
/// and does not count. A file that cannot be read, or is too long, is taken to contain it.
pub(crate) fn contain_cudnn(file: &Path) -> bool {
    let Ok(parts) = parts_without_gpu_code_any(file) else { return true };
    let length: u64 = parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
    let Ok(file) = File::open(file) else { return true };
    length > MAX_LEN || parts.into_iter().any(|part| is_in_part(&file, part).unwrap_or(true))
}

fn is_in_part(mut file: &File, part: Range<u64>) -> std::io::Result<bool> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + 16);
    loop {
        // What is kept of the last block: a name that begins there, and the byte before it.
        let kept = block.len().min(NAME.len() + 1);
        block.drain(..block.len() - kept);
        if (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? == 0 {
            return Ok(false);
        }
        if is_in_block(&block) {
            return Ok(true);
        }
    }
}

/// Compares two letters in steps that the compiler turns into vector instructions: few places have both.
fn is_in_block(block: &[u8]) -> bool {
    const STEP: usize = 64;
    let mut start = 0;
    loop {
        let letters = block.get(start..).and_then(<[u8]>::first_chunk::<STEP>);
        let next = block.get(start + 1..).and_then(<[u8]>::first_chunk::<STEP>);
        let Some((letters, next)) = letters.zip(next) else {
            return is_near(block, start.saturating_sub(3), block.len());
        };
        let pairs = letters.iter().zip(next);
        let found = pairs.fold(0, |found, (a, b)| found | (u8::from(*a == b'd') & u8::from(*b == b'n')));
        if found != 0 && is_near(block, start.saturating_sub(3), start + STEP) {
            return true;
        }
        start += STEP;
    }
}

/// Is the name between these places, and not as a directory?
fn is_near(block: &[u8], start: usize, end: usize) -> bool {
    let is_name = |at: usize| block.get(at..at + NAME.len()) == Some(NAME);
    let is_directory =
        |at: usize| block.get(at.wrapping_sub(1)) == Some(&b'/') && block.get(at + NAME.len()) == Some(&b'/');
    (start..end).any(|at| is_name(at) && !is_directory(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_wherever_it_is_but_not_as_a_directory() {
        for offset in 0..200 {
            let mut block = vec![b'n'; offset];
            block.extend(b"cudnn");
            assert!(is_in_block(&block), "{offset}");
            block.extend([b'd'; 100]);
            assert!(is_in_block(&block), "{offset}");
        }
        for text in ["", "cudn", "cuddn", "ncudncu", "$ORIGIN/../../nvidia/cudnn/lib:x", "CUDNN"] {
            assert!(!is_in_block(text.as_bytes()), "{text}");
            assert!(!is_in_block(&[&[b'/'; 62], text.as_bytes()].concat()), "{text}");
        }
        for text in ["libcudnn.so", "/cudnn", "ccudnn", "cucudnn", "cudcudnn", "cudncudnn", "/cudnn/ cudnn."] {
            assert!(is_in_block(text.as_bytes()), "{text}");
        }
    }
}
