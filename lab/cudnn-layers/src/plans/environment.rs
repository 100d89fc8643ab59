//! Describes the inputs that all plans of this process share: cuDNN's release and files, and relevant variables.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use object::{Object, ReadCache};

use super::bytes::KeyBytes;
use super::variables::Variables;

/// The bytes at the start and end, with headers and section offsets, that identify a library without a build ID.
const SAMPLE: usize = 4096;

/// Returns the release, the libraries and the variables as bytes. The error names an unreadable file.
pub(super) fn describe(version: u32, dir: &Path, variables: &Variables) -> Result<Vec<u8>, String> {
    let mut bytes = KeyBytes::default();
    bytes.number(version);
    let entries = std::fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))?;
    let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| is_library(name));
    names.sort();
    for name in names {
        let path = dir.join(&name);
        let file = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), build(file)?)));
        let (len, build) = file.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        bytes.block(name.as_encoded_bytes());
        bytes.0.extend(len.to_le_bytes());
        bytes.block(&build);
    }
    variables.write(&mut bytes);
    Ok(bytes.0)
}

/// Matches names such as `libcudnn_graph.so.9` and `cudnn_graph64_9.dll`, but not the shim, which may be replaced.
fn is_library(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    (name.starts_with("libcudnn_") && name.ends_with(".so.9"))
        || (name.starts_with("cudnn_") && name.ends_with("64_9.dll"))
}

fn build(mut file: File) -> std::io::Result<Vec<u8>> {
    let cache = ReadCache::new(&file);
    let parsed = object::File::parse(&cache).ok();
    if let Some(id) = parsed.and_then(|parsed| parsed.build_id().ok().flatten().map(<[u8]>::to_vec)) {
        return Ok(id);
    }
    let len = file.metadata()?.len();
    file.rewind()?;
    let mut sample = Vec::with_capacity(2 * SAMPLE);
    Read::by_ref(&mut file).take(SAMPLE as u64).read_to_end(&mut sample)?;
    file.seek(SeekFrom::Start(len.saturating_sub(SAMPLE as u64)))?;
    file.take(SAMPLE as u64).read_to_end(&mut sample)?;
    Ok(sample)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn libraries_are_matched_and_the_shim_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| std::fs::write(dir.path().join(name), content).unwrap();
        let described = || describe(91_900, dir.path(), &Variables::now()).unwrap();
        for (shim, library) in [("libcudnn.so.9", "libcudnn_graph.so.9"), ("cudnn64_9.dll", "cudnn_graph64_9.dll")] {
            write(library, "one build");
            let before = described();
            write(shim, "NVIDIA's");
            assert_eq!(described(), before, "{shim}");
            write(library, "another");
            assert_ne!(described(), before, "{library}");
        }
    }
}
