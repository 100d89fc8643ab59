//! Looks up names in `/etc/ld.so.cache`. Supports the format that glibc has written since 2.2, with or without the
//! older format in front of it.

use std::io::Read;
#[cfg(feature = "serde")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

use cudnn_os::files::{Opened, open_regular, path_from_bytes};

use crate::facts;
use crate::host::Host;
use crate::platform::LD_CACHE_FLAGS;

/// The maximum size of the cache in bytes. Typical caches have several hundred kilobytes.
const MAX_CACHE_LEN: u64 = 16 << 20;
/// The maximum path length in bytes (`PATH_MAX`).
const MAX_PATH_LEN: usize = 4096;
/// The maximum number of files per name.
const MAX_FILES: usize = 64;
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// The question about the files with a name.
const QUESTION: &str = "files in ld.so.cache";

/// The cache of a host, which is read when a name is looked up that the facts do not know.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    host: Host,
    bytes: OnceLock<Vec<u8>>,
}

impl Cache {
    /// The cache of this host. A missing or unreadable file is treated as an empty cache.
    pub(crate) fn new(host: &Host) -> Self {
        Cache { host: host.clone(), bytes: OnceLock::new() }
    }

    /// Returns all cached files for this name and architecture, in cache order, whether or not they exist.
    pub(crate) fn files(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let bytes = || self.bytes.get_or_init(|| read(&self.host));
        let question = self.host.system("/").join(name).into_os_string();
        let files: Vec<PathBuf> = facts::ask(QUESTION, question, || parse(bytes(), name).unwrap_or_default());
        files.into_iter().map(|file| self.host.system(file))
    }
}

/// Adds a library to the cache of the current host, as ldconfig does if a new library is in a directory that it scans.
#[cfg(feature = "serde")]
pub fn add_to_cache(changes: &mut facts::Changes, file: &Path) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let cache = Cache::new(&Host::current());
    let files: Vec<PathBuf> = cache.files(&name).filter(|known| known != file).chain([file.to_owned()]).collect();
    changes.set_answer(QUESTION, &format!("/{name}"), &files);
}

fn read(host: &Host) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(Opened::Regular(file, len)) = open_regular(&host.system("/etc/ld.so.cache")) {
        // A growing buffer would be filled in many small pieces.
        bytes.reserve(usize::try_from(len.min(MAX_CACHE_LEN)).unwrap_or_default());
        // After an error, the bytes read so far are parsed like a truncated cache.
        let _ = file.take(MAX_CACHE_LEN).read_to_end(&mut bytes);
    }
    bytes
}

fn parse(bytes: &[u8], name: &str) -> Option<Vec<PathBuf>> {
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let table = bytes.get(start..)?;
    let number = |offset: usize| -> Option<u32> {
        Some(u32::from_le_bytes(*table.get(offset..offset.checked_add(4)?)?.first_chunk::<4>()?))
    };
    let text = |offset: usize| -> Option<&[u8]> {
        let rest = table.get(offset..)?;
        rest.get(..rest.iter().take(MAX_PATH_LEN).position(|byte| *byte == 0)?)
    };
    let count = usize::try_from(number(20)?).ok()?;
    let mut found = Vec::new();
    for index in 0..count {
        let entry = index.checked_mul(24)?.checked_add(48)?;
        let Some(flags) = number(entry) else { break };
        let key = table.get(usize::try_from(number(entry + 4)?).ok()?..)?;
        // Skip entries for specific processors (hwcaps), because NVIDIA publishes only one build of cuDNN.
        let for_all = number(entry.checked_add(16)?)? == 0 && number(entry.checked_add(20)?)? == 0;
        let is_match = key.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if flags == LD_CACHE_FLAGS && for_all && is_match {
            found.push(path_from_bytes(text(usize::try_from(number(entry + 8)?).ok()?)?));
            if found.len() == MAX_FILES {
                break;
            }
        }
    }
    Some(found)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a cache with `count` identical entries.
    pub(crate) fn cache(flags: u32, key: &str, value: &str, count: u32) -> Vec<u8> {
        let strings = 48 + 24 * count;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(count.to_le_bytes());
        bytes.extend([0; 24]);
        for _ in 0..count {
            bytes.extend(flags.to_le_bytes());
            bytes.extend(strings.to_le_bytes());
            bytes.extend((strings + 1 + u32::try_from(key.len()).unwrap_or(0)).to_le_bytes());
            bytes.extend([0; 12]);
        }
        for text in [key, value] {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn an_entry_of_this_architecture_is_found_by_its_name() {
        let bytes = cache(LD_CACHE_FLAGS, "libcudnn_graph.so.9", "/a/libcudnn_graph.so.9", 1);
        assert_eq!(parse(&bytes, "libcudnn_graph.so.9"), Some(vec![PathBuf::from("/a/libcudnn_graph.so.9")]));
        assert_eq!(parse(&bytes, "libcudnn_ops.so.9"), Some(vec![]));
        assert_eq!(parse(&cache(1, "libx", "/libx", 1), "libx"), Some(vec![]));
        // Either half of the 64-bit value can mark an entry for specific processors.
        for half in [48 + 16, 48 + 20] {
            let mut special = cache(LD_CACHE_FLAGS, "libx", "/libx", 1);
            special.get_mut(half).into_iter().for_each(|byte| *byte = 1);
            assert_eq!(parse(&special, "libx"), Some(vec![]), "{half}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn the_cache_of_the_host_is_read_and_a_missing_one_is_empty() {
        let root = std::env::temp_dir().join(format!("cudnn-probe-cache-{}", std::process::id()));
        let host = Host::sandbox(&root);
        let files = || Cache::new(&host).files("libx").collect::<Vec<_>>();
        assert_eq!(files(), Vec::<PathBuf>::new());
        let file = host.system("/etc/ld.so.cache");
        let written = file.parent().is_some_and(|etc| std::fs::create_dir_all(etc).is_ok())
            && std::fs::write(&file, cache(LD_CACHE_FLAGS, "libx", "/opt/libx", 1)).is_ok();
        assert!(written, "{file:?}");
        assert_eq!(files(), [host.system("/opt/libx")]);
        let _ = std::fs::remove_dir_all(root);
    }

    #[test]
    fn a_truncated_or_invalid_cache_gives_nothing_and_does_not_panic() {
        let bytes = cache(LD_CACHE_FLAGS, "libx", "/libx", 1);
        for length in 0..bytes.len() {
            let _ = parse(bytes.get(..length).unwrap_or_default(), "libx");
        }
        let mut invalid = bytes;
        for byte in invalid.iter_mut().skip(20).take(4) {
            *byte = 0xff;
        }
        assert_eq!(parse(&invalid, "libx").map(|found| found.len()).unwrap_or(1), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes of input take minutes")]
    fn a_hostile_cache_gives_a_bounded_number_of_bounded_paths() {
        let bytes = cache(LD_CACHE_FLAGS, "libx", "/libx", 10_000);
        assert_eq!(parse(&bytes, "libx").map(|found| found.len()), Some(MAX_FILES));
        let long = "x".repeat(1 << 20);
        assert_eq!(parse(&cache(LD_CACHE_FLAGS, "libx", &long, 1), "libx"), None);
    }
}
