//! Searches libraries for cuDNN's name, because a library must contain at least parts of a name that it opens.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use cudnn_probe::facts;
use cudnn_probe::image::parts_without_gpu_code_any;
use cudnn_probe::{ld_so, parts_without_gpu_code};

use crate::files::contains;

/// The maximum number of bytes to read from a library. The largest known one has 65 MB besides GPU code.
const MAX_LEN: u64 = 256 << 20;

/// Returns whether a file's code or data contains `cudnn`, except in a directory such as `nvidia/cudnn/lib`. Unreadable
/// and very long files count.
pub(super) fn contain_cudnn(file: &Path) -> bool {
    facts::ask("name of cuDNN in library", file, || {
        let Ok(parts) = parts_without_gpu_code_any(file) else { return true };
        let Ok(file) = File::open(file) else { return true };
        length(&parts) > MAX_LEN
            || parts.iter().any(|part| contains(&file, part, b"cudnn", is_no_directory).unwrap_or(true))
    })
}

fn is_no_directory(block: &[u8], at: usize) -> bool {
    block.get(at.wrapping_sub(1)) != Some(&b'/') || block.get(at + b"cudnn".len()) != Some(&b'/')
}

fn length(parts: &[Range<u64>]) -> u64 {
    parts.iter().map(|part| part.end.saturating_sub(part.start)).sum()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    /// The library is linked to cuDNN (`DT_NEEDED`).
    Linked,
    /// The library contains cuDNN's name.
    Named,
    /// The library uses CUDA, but is too large to be searched for the name.
    Unknown,
}

/// Returns how a library for this machine uses cuDNN, if it does. Reads only the headers of most libraries. Libraries
/// that use CUDA without being linked to cuDNN are searched until `bytes_left` is used up.
pub(super) fn uses(file: &Path, bytes_left: &AtomicU64) -> Option<Uses> {
    let needed = ld_so::needed(file).ok()?;
    if needed.iter().any(|name| name.starts_with("libcudnn")) {
        return Some(Uses::Linked);
    }
    let parts = parts_without_gpu_code(file).ok()?;
    // GPU code fills the gaps between the parts.
    let has_gpu_code = parts.windows(2).any(|pair| matches!(pair, [before, after] if before.end < after.start));
    if !has_gpu_code && !needed.iter().any(|name| is_cuda(name)) {
        return None;
    }
    let take = |left: u64| left.checked_sub(length(&parts));
    if bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        return Some(Uses::Unknown);
    }
    let is_named = facts::ask("libcudnn in library", file, || {
        let Ok(file) = File::open(file) else { return false };
        parts.iter().any(|part| contains(&file, part, b"libcudnn", |_, _| true).unwrap_or(false))
    });
    is_named.then_some(Uses::Named)
}

/// Returns whether this is a CUDA or driver library, or a copy in a wheel: `libcudart-9335f6a2.so.12.4.127`.
fn is_cuda(name: &str) -> bool {
    let names = ["libcuda", "libcudart", "libcublas", "libcublasLt", "libnvrtc"];
    names.iter().any(|cuda| name.strip_prefix(cuda).is_some_and(|rest| rest.starts_with(['.', '-'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_do_not_count() {
        let is_in = |text: &str| {
            let mut places = text.match_indices("cudnn");
            places.any(|(at, _)| is_no_directory(text.as_bytes(), at))
        };
        for text in ["", "cudn", "cuddn", "$ORIGIN/../../nvidia/cudnn/lib:x", "CUDNN"] {
            assert!(!is_in(text), "{text}");
        }
        for text in ["libcudnn.so", "/cudnn", "ccudnn", "cucudnn", "/cudnn/ cudnn."] {
            assert!(is_in(text), "{text}");
        }
    }
}
