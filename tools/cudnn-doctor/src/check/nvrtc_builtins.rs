//! The library of builtins that NVRTC opens: its name, which has the minor release of CUDA, and whether a usable one is
//! next to a file of NVRTC.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::needed;
use cudnn_probe::{ProbeError, parts_without_gpu_code};

use crate::platform::is_too_many_open_files;

/// What all names of the library begin with.
pub(super) const STEM: &str = "libnvrtc-builtins.so.";

/// The most bytes of a file of NVRTC that are read, and how many at a time.
const MAX_LEN: u64 = 256 << 20;
const BLOCK_LEN: u64 = 1 << 20;

/// The longest release in a name.
const MAX_RELEASE_LEN: usize = 8;

/// Are usable builtins of NVRTC beside this file of NVRTC?
pub(super) fn has_builtins(nvrtc: &Path, cuda_major: u32) -> bool {
    beside(nvrtc, wanted_name(nvrtc).as_deref(), cuda_major).is_some_and(|(_, usable)| usable.is_ok())
}

/// The builtins with this name, or for this CUDA major, beside this file of NVRTC, and whether they can be used: the first
/// file that can, or else the last one.
pub(super) fn beside(nvrtc: &Path, wanted: Option<&str>, cuda_major: u32) -> Option<(PathBuf, Result<(), ProbeError>)> {
    let nvrtc = cudnn_probe::canonicalize(nvrtc).unwrap_or_else(|_| nvrtc.to_owned());
    let start = format!("{STEM}{cuda_major}");
    let is_builtins = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        wanted.map_or_else(|| name.to_string_lossy().starts_with(&start), |wanted| name == wanted)
    };
    let entries = match std::fs::read_dir(nvrtc.parent()?) {
        Ok(entries) => entries.flatten(),
        Err(error) => {
            let error = ProbeError::Unreadable { error };
            return is_too_many_open_files(&error).then_some((nvrtc, Err(error)));
        }
    };
    let mut last = None;
    for entry in entries.filter(is_builtins) {
        let usable = needed(&entry.path()).map(drop);
        let is_usable = usable.is_ok();
        last = Some((entry.path(), usable));
        if is_usable {
            break;
        }
    }
    last
}

/// The name by which this file of NVRTC opens its builtins: its messages contain it. `None` if they do not.
pub(super) fn wanted_name(nvrtc: &Path) -> Option<String> {
    let mut file = File::open(nvrtc).ok()?;
    let mut left = MAX_LEN;
    for part in parts_without_gpu_code(nvrtc).ok()? {
        let mut at = part.start;
        while at < part.end && left > 0 {
            // A name may begin at the end of a block.
            let overlap = (STEM.len() + MAX_RELEASE_LEN) as u64;
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
    let stem = STEM.as_bytes();
    // Few bytes are a colon's neighbour: the search for one byte is fast.
    let mut starts = block.iter().enumerate().filter(|(_, byte)| **byte == b'-').map(|(at, _)| at.checked_sub(8));
    starts.find_map(|at| {
        let rest = block.get(at?..)?.strip_prefix(stem)?;
        let is_of_release = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let release: Vec<u8> = rest.iter().take(MAX_RELEASE_LEN).take_while(is_of_release).copied().collect();
        let release = String::from_utf8(release).ok()?;
        // `12.9`; a sentence may end behind it.
        let (major, minor) = release.trim_end_matches('.').split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(major) && is_number(minor)).then(|| format!("{STEM}{major}.{minor}"))
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
