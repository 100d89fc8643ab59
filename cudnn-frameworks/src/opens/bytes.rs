//! Whether a library's file contains the name of cuDNN: one that opens it by name must, in full or in parts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use cudnn_probe::parts_without_gpu_code;

/// The most bytes that are read. The largest known library has 65 MB besides its GPU code.
const MAX_LEN: u64 = 256 << 20;
const BLOCK_LEN: usize = 1 << 20;
const NAME: &[u8; 5] = b"cudnn";

/// Does the file contain `cudnn`, in its code or data? A run path contains it too, as a directory (`nvidia/cudnn/lib`),
/// and does not count. A file that cannot be read, or is too long, is taken to contain it.
pub(crate) fn contain_cudnn(file: &Path) -> bool {
    let Ok(parts) = parts_without_gpu_code(file) else { return true };
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

/// Looks at every fifth byte first: most are no letter of the name.
fn is_in_block(block: &[u8]) -> bool {
    let mut index = NAME.len() - 1;
    while let Some(byte) = block.get(index) {
        // From the last place of this letter in the name, as far as the name goes on after it.
        let step = match byte {
            b'n' => {
                let start = index + 1 - NAME.len();
                let is_name = block.get(start..=index) == Some(NAME);
                let is_directory =
                    block.get(start.wrapping_sub(1)) == Some(&b'/') && block.get(index + 1) == Some(&b'/');
                if is_name && !is_directory {
                    return true;
                }
                1
            }
            b'd' => 2,
            b'u' => 3,
            b'c' => 4,
            _ => 5,
        };
        index += step;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_wherever_it_is_but_not_as_a_directory() {
        for offset in 0..40 {
            let mut block = vec![b'n'; offset];
            block.extend(b"cudnn");
            assert!(is_in_block(&block), "{offset}");
            block.extend([b'c'; 7]);
            assert!(is_in_block(&block), "{offset}");
        }
        for text in ["", "cudn", "cuddn", "ncudncu", "$ORIGIN/../../nvidia/cudnn/lib:x", "CUDNN"] {
            assert!(!is_in_block(text.as_bytes()), "{text}");
        }
        for text in ["libcudnn.so", "/cudnn", "ccudnn", "cucudnn", "cudcudnn", "cudncudnn", "/cudnn/ cudnn."] {
            assert!(is_in_block(text.as_bytes()), "{text}");
        }
    }
}
