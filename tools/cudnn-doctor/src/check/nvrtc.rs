//! Checks the builtins library that NVRTC opens (C032). The file name contains the minor release of CUDA.

use cudnn_probe::facts;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cudnn_probe::ProbeError;
use cudnn_probe::internal::loaded_parts;
use cudnn_probe::ld_so::{Resolution, Simulation, needed};
use memchr::memmem;

use super::finding::{Finding, NO_BUILTINS};
use crate::escape::Printable;
use crate::platform::is_too_many_open_files;

/// The common prefix of all builtins file names.
const STEM: &str = "libnvrtc-builtins.so.";

/// The maximum number of bytes to read from NVRTC, and the block size.
const MAX_LEN: u64 = 256 << 20;
const BLOCK_LEN: u64 = 1 << 20;

/// The maximum length of the release in a file name.
const MAX_RELEASE_LEN: usize = 8;

/// C032: the builtins that NVRTC opens are missing or damaged. `name` is the name by which the simulated process opens
/// this NVRTC.
pub(super) fn builtins(name: &str, nvrtc: &Path, cuda_major: u32, mut simulation: Simulation) -> Option<Finding> {
    let wanted = wanted_name(nvrtc);
    // ld.so may find the builtins in a different directory.
    let by_ld_so = wanted.as_ref().and_then(|wanted| {
        let index = simulation.dlopen_incomplete(name, 0)?;
        simulation.dlopen(wanted, index);
        match &simulation.lookups().last()?.resolution {
            Resolution::Found { .. } => Some(Ok(())),
            Resolution::Unusable { path, error, .. } => Some(Err(format!("{} {error}", path.printable()))),
            _ => None,
        }
    });
    let name = wanted.clone().unwrap_or_else(|| format!("{STEM}{}.*", cuda_major));
    let message = match (by_ld_so, builtins_next_to(nvrtc, wanted.as_deref(), cuda_major)) {
        (Some(Ok(())), _) | (None, Some((_, Ok(())))) => return None,
        (_, Some((_, Err(error)))) if is_too_many_open_files(&error) => return None,
        (Some(Err(error)), _) => format!("{name} is damaged: {error}"),
        (None, Some((file, Err(error)))) => {
            let name = Path::new(file.file_name().unwrap_or_default()).printable();
            format!("{name} is damaged: {} {error}", file.printable())
        }
        (None, None) => format!("{name} is not next to {}, and ld.so does not find it", nvrtc.printable()),
    };
    Some(Finding::new(NO_BUILTINS, message).note("NVRTC opens it to compile a kernel"))
}

/// Returns whether usable builtins exist in the directory of NVRTC.
pub(super) fn has_builtins(nvrtc: &Path, cuda_major: u32) -> bool {
    builtins_next_to(nvrtc, wanted_name(nvrtc).as_deref(), cuda_major).is_some_and(|(_, usable)| usable.is_ok())
}

/// Returns the builtins in NVRTC's directory with this name, or for this CUDA major if the name is unknown, and whether
/// they are usable. Prefers a usable file.
fn builtins_next_to(nvrtc: &Path, wanted: Option<&str>, cuda_major: u32) -> Option<(PathBuf, Result<(), ProbeError>)> {
    let nvrtc = cudnn_probe::canonicalize(nvrtc).unwrap_or_else(|_| nvrtc.to_owned());
    let start = format!("{STEM}{cuda_major}");
    let is_builtins = |entry: &facts::DirEntry| {
        let name = entry.file_name();
        wanted.map_or_else(|| name.to_string_lossy().starts_with(&start), |wanted| name == wanted)
    };
    let entries = match facts::read_dir(nvrtc.parent()?) {
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

/// Returns the name by which NVRTC opens the builtins, found in NVRTC's error messages, or `None` if the messages do
/// not contain a name.
fn wanted_name(nvrtc: &Path) -> Option<String> {
    facts::ask("builtins that NVRTC opens", nvrtc, || read_wanted_name(nvrtc))
}

fn read_wanted_name(nvrtc: &Path) -> Option<String> {
    let mut file = File::open(nvrtc).ok()?;
    let mut left = MAX_LEN;
    for part in loaded_parts(nvrtc).ok()? {
        let mut at = part.start;
        while at < part.end && left > 0 {
            // A name may span two blocks.
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
    memmem::find_iter(block, stem).find_map(|at| {
        let rest = block.get(at..)?.strip_prefix(stem)?;
        let is_of_release = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let release: Vec<u8> = rest.iter().take(MAX_RELEASE_LEN).take_while(is_of_release).copied().collect();
        let release = String::from_utf8(release).ok()?;
        // The release, for example `12.9`. The period at the end of a sentence may follow.
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
