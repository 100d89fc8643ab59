//! Whether a shared library uses cuDNN: it is linked to it, or contains its name. Reads the headers of each, and searches
//! only those that use CUDA in another way.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cudnn_probe::{ld_so, parts_without_gpu_code};

const NAME: &[u8] = b"libcudnn";
const BLOCK_LEN: usize = 1 << 20;

/// How a library uses cuDNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    /// It is linked to it (`DT_NEEDED`).
    Linked,
    /// It contains its name.
    Named,
    /// It uses CUDA, and is too large to be searched for the name.
    Unknown,
}

/// The bytes that may be searched yet.
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new(length: u64) -> Self {
        Budget(AtomicU64::new(length))
    }

    /// Takes that many bytes, if they are left: others may be smaller.
    fn take(&self, length: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(length)).is_ok()
    }
}

/// How the library in this file uses cuDNN; `None` if it does not, or is no library for this machine.
pub(super) fn uses(file: &Path, budget: &Budget) -> Option<Uses> {
    let needed = ld_so::needed(file).ok()?;
    if needed.iter().any(|name| name.starts_with("libcudnn")) {
        return Some(Uses::Linked);
    }
    let needs_cuda = needed.iter().any(|name| is_cuda(name));
    let parts = parts_without_gpu_code(file).ok()?;
    // The GPU code is what is between the parts.
    let has_gpu_code = parts.windows(2).any(|pair| matches!(pair, [before, after] if before.end < after.start));
    if !needs_cuda && !has_gpu_code {
        return None;
    }
    let length = parts.iter().map(|part| part.end.saturating_sub(part.start)).sum();
    if !budget.take(length) {
        return Some(Uses::Unknown);
    }
    let file = File::open(file).ok()?;
    parts.into_iter().any(|part| contains_name(&file, part).unwrap_or(false)).then_some(Uses::Named)
}

/// A library of CUDA or its driver, with the hash that a wheel may add: `libcudart-9335f6a2.so.12.4.127`.
fn is_cuda(name: &str) -> bool {
    let names = ["libcuda", "libcudart", "libcublas", "libcublasLt", "libnvrtc"];
    names.iter().any(|cuda| name.strip_prefix(cuda).is_some_and(|rest| rest.starts_with(['.', '-'])))
}

fn contains_name(mut file: &File, part: Range<u64>) -> std::io::Result<bool> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + NAME.len());
    loop {
        // A name may begin at the end of the last block.
        let kept = block.len().min(NAME.len() - 1);
        block.drain(..block.len() - kept);
        if (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? == 0 {
            return Ok(false);
        }
        if is_in(&block) {
            return Ok(true);
        }
    }
}

/// Looks at every eighth byte first: most are no letter of the name.
fn is_in(block: &[u8]) -> bool {
    let mut end = NAME.len() - 1;
    while let Some(byte) = block.get(end) {
        // From the last place of this letter in the name to its end.
        let step = match NAME.iter().rposition(|letter| letter == byte) {
            Some(place) if place == NAME.len() - 1 => {
                if block.get(end + 1 - NAME.len()..=end) == Some(NAME) {
                    return true;
                }
                1
            }
            Some(place) => NAME.len() - 1 - place,
            None => NAME.len(),
        };
        end += step;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_wherever_it_is() {
        for offset in 0..40 {
            for filler in *b"nlcu\0x" {
                let mut block = vec![filler; offset];
                block.extend(b"libcudn");
                assert!(!is_in(&block), "{offset}");
                block.extend(b"n.so");
                assert!(is_in(&block), "{offset} {filler}");
            }
        }
        assert!(!is_in(b""));
    }
}
