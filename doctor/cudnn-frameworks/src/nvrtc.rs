//! Reads from NVRTC which builtins library it opens. The file name contains the minor release of CUDA.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use cudnn_probe::facts;
use cudnn_probe::image::loaded_parts;
use memchr::memmem;

/// The common prefix of all builtins file names.
pub const BUILTINS: &str = "libnvrtc-builtins.so.";

/// The maximum number of bytes to read from NVRTC, and the block size.
const MAX_LEN: u64 = 256 << 20;
const BLOCK_LEN: u64 = 1 << 20;

/// The maximum length of the release in a file name.
const MAX_RELEASE_LEN: usize = 8;

/// Returns the name by which NVRTC opens the builtins, found in NVRTC's error messages, or `None` if the messages do
/// not contain a name.
pub fn builtins_name(nvrtc: &Path) -> Option<String> {
    facts::ask("builtins that NVRTC opens", nvrtc, || read_builtins_name(nvrtc))
}

fn read_builtins_name(nvrtc: &Path) -> Option<String> {
    let mut file = File::open(nvrtc).ok()?;
    let mut left = MAX_LEN;
    for part in loaded_parts(nvrtc).ok()? {
        let mut at = part.start;
        while at < part.end && left > 0 {
            // A name may span two blocks.
            let overlap = (BUILTINS.len() + MAX_RELEASE_LEN) as u64;
            let mut block = Vec::new();
            file.seek(SeekFrom::Start(at)).ok()?;
            file.by_ref().take((BLOCK_LEN + overlap).min(part.end - at)).read_to_end(&mut block).ok()?;
            if let Some(name) = name_in(&block) {
                return Some(name);
            }
            at += BLOCK_LEN;
            left = left.saturating_sub(BLOCK_LEN);
        }
    }
    None
}

fn name_in(block: &[u8]) -> Option<String> {
    let stem = BUILTINS.as_bytes();
    memmem::find_iter(block, stem).find_map(|at| {
        let rest = block.get(at..)?.strip_prefix(stem)?;
        let is_of_release = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let release: Vec<u8> = rest.iter().take(MAX_RELEASE_LEN).take_while(is_of_release).copied().collect();
        let release = String::from_utf8(release).ok()?;
        // The release, for example `12.9`. The period at the end of a sentence may follow.
        let (major, minor) = release.trim_end_matches('.').split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(major) && is_number(minor)).then(|| format!("{BUILTINS}{major}.{minor}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_builtins_is_in_the_messages_of_nvrtc() {
        for (text, expected) in [
            ("\0nvrtc: error: failed to open libnvrtc-builtins.so.12.9.\n", Some("libnvrtc-builtins.so.12.9")),
            ("a-b libnvrtc-builtins.so.13.0 is corrupted", Some("libnvrtc-builtins.so.13.0")),
            ("libnvrtc-builtins.so.%d.%d, libnvrtc-builtins.so", None),
            ("-", None),
        ] {
            assert_eq!(name_in(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
