//! Reads the name of the builtins library that NVRTC opens, which contains the minor release of CUDA.

use std::fs::File;
use std::path::Path;

use cudnn_probe::facts;
use cudnn_probe::image::loaded_parts;
use memchr::memmem;

use crate::files::find_in_blocks;

/// The prefix of all builtins libraries.
pub const BUILTINS: &str = "libnvrtc-builtins.so.";

/// The maximum number of bytes to read from NVRTC.
const MAX_LEN: u64 = 256 << 20;

/// The maximum length of the release in a file name.
const MAX_RELEASE_LEN: usize = 8;

/// Returns the name of the builtins that NVRTC opens, if NVRTC's error messages contain it.
pub fn builtins_name(nvrtc: &Path) -> Option<String> {
    facts::ask("builtins that NVRTC opens", nvrtc, || read_builtins_name(nvrtc))
}

fn read_builtins_name(nvrtc: &Path) -> Option<String> {
    let file = File::open(nvrtc).ok()?;
    let mut left = MAX_LEN;
    loaded_parts(nvrtc).ok()?.into_iter().find_map(|part| {
        let part = part.start..part.end.min(part.start.saturating_add(left));
        left = left.saturating_sub(part.end - part.start);
        find_in_blocks(&file, &part, BUILTINS.len() + MAX_RELEASE_LEN, |block, _| name_in(block)).ok()?
    })
}

fn name_in(block: &[u8]) -> Option<String> {
    let stem = BUILTINS.as_bytes();
    memmem::find_iter(block, stem).find_map(|at| {
        let rest = block.get(at..)?.strip_prefix(stem)?;
        let is_of_release = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let release: Vec<u8> = rest.iter().take(MAX_RELEASE_LEN).take_while(is_of_release).copied().collect();
        let release = String::from_utf8(release).ok()?;
        // For example, `12.9`, possibly at the end of a sentence.
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
