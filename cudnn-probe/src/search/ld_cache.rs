//! `/etc/ld.so.cache`: which file the dynamic linker's cache has for a name. Only the format that glibc writes since
//! 2.2 is read, alone or behind the older one.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest cache that is read, in bytes. Real ones have some tens of kilobytes.
const MAX_CACHE_LEN: u64 = 16 << 20;
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// 64-bit x86 and 64-bit Arm libraries of glibc, as the cache's flags call them.
const OURS: u32 = if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 };

/// A cache, read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LdCache(Vec<u8>);

impl LdCache {
    /// The cache in this file; empty where there is none that can be read.
    pub(crate) fn read(file: &Path) -> Self {
        let mut bytes = Vec::new();
        if std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file())
            && let Ok(file) = std::fs::File::open(file)
        {
            // What was read before an error is read as a cut cache.
            let _ = file.take(MAX_CACHE_LEN).read_to_end(&mut bytes);
        }
        LdCache(bytes)
    }

    /// The files that the cache has under this name, for this architecture, in the cache's order.
    pub(crate) fn files(&self, name: &str) -> Vec<PathBuf> {
        parse(&self.0, name).unwrap_or_default()
    }
}

fn parse(bytes: &[u8], name: &str) -> Option<Vec<PathBuf>> {
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = bytes.get(start..)?;
    let number = |offset: usize| -> Option<u32> {
        Some(u32::from_le_bytes(*table.get(offset..offset.checked_add(4)?)?.first_chunk::<4>()?))
    };
    let text = |offset: usize| -> Option<&[u8]> {
        let rest = table.get(offset..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let count = usize::try_from(number(20)?).ok()?;
    let mut found = Vec::new();
    for index in 0..count {
        let entry = index.checked_mul(24)?.checked_add(48)?;
        let Some(flags) = number(entry) else { break };
        let key = table.get(usize::try_from(number(entry + 4)?).ok()?..)?;
        // Entries for certain processors only (hwcap) are passed over: cuDNN comes for all.
        let for_all = number(entry.checked_add(16)?)? == 0 && number(entry.checked_add(20)?)? == 0;
        let is_it = key.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if flags == OURS && for_all && is_it {
            found.push(path(text(usize::try_from(number(entry + 8)?).ok()?)?));
        }
    }
    Some(found)
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with one entry.
    fn cache(flags: u32, key: &str, value: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1u32.to_le_bytes());
        bytes.extend([0; 24]);
        bytes.extend(flags.to_le_bytes());
        bytes.extend(72u32.to_le_bytes());
        bytes.extend((73 + u32::try_from(key.len()).unwrap_or(0)).to_le_bytes());
        bytes.extend([0; 12]);
        for text in [key, value] {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn an_entry_of_this_architecture_is_found_by_its_name() {
        let bytes = cache(OURS, "libcudnn_graph.so.9", "/a/libcudnn_graph.so.9");
        assert_eq!(parse(&bytes, "libcudnn_graph.so.9"), Some(vec![PathBuf::from("/a/libcudnn_graph.so.9")]));
        assert_eq!(parse(&bytes, "libcudnn_ops.so.9"), Some(vec![]));
        assert_eq!(parse(&cache(1, "libx", "/libx"), "libx"), Some(vec![]));
    }

    #[test]
    fn a_cut_or_lying_cache_gives_nothing_and_does_not_panic() {
        let bytes = cache(OURS, "libx", "/libx");
        for length in 0..bytes.len() {
            let _ = parse(bytes.get(..length).unwrap_or_default(), "libx");
        }
        let mut lying = bytes;
        for byte in lying.iter_mut().skip(20).take(4) {
            *byte = 0xff;
        }
        assert_eq!(parse(&lying, "libx").map(|found| found.len()).unwrap_or(1), 1);
    }
}
