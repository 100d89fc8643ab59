//! The file names that the store uses. Files with other names are never touched.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

pub(crate) type Hash = [u8; 32];

pub(crate) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// The file that marks a directory as created by a store. It also excludes the directory from backups.
pub(crate) const TAG: &str = "CACHEDIR.TAG";

/// The content of the tag. The first line is defined by the Cache Directory Tagging Specification.
pub(crate) const TAG_CONTENT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55
# This directory has compiled plans of cuDNN (cudnn-store).
# `cudnn-lab plans clear` empties it. Plans that are missing are built again.
";

const ENTRY_SUFFIX: &str = ".plan";
const TEMPORARY_PREFIX: &str = "tmp-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFile {
    /// An unfinished file that is renamed once it is complete.
    Temporary,
    Entry,
}

pub(crate) fn entry_name(hash: &Hash) -> String {
    let mut name = String::with_capacity(64 + ENTRY_SUFFIX.len());
    for byte in hash {
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(ENTRY_SUFFIX);
    name
}

/// Returns a unique name for a temporary file.
pub(crate) fn temporary_name(process: u32, count: u32, random: u64) -> String {
    format!("{TEMPORARY_PREFIX}{process}-{count}-{random:016x}")
}

/// Returns a random number, because processes in two containers may have the same ID.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// Returns the kind of a file with this name, or `None` if it does not belong to a store.
pub(crate) fn kind(name: &str) -> Option<StoreFile> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if let Some(hash) = name.strip_suffix(ENTRY_SUFFIX) {
        return (hash.len() == 64 && is_hex(hash)).then_some(StoreFile::Entry);
    }
    let mut parts = name.strip_prefix(TEMPORARY_PREFIX)?.split('-');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_temporary = is_number(parts.next()?)
        && is_number(parts.next()?)
        && parts.next().is_some_and(|random| random.len() == 16 && is_hex(random))
        && parts.next().is_none();
    is_temporary.then_some(StoreFile::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_file_names_are_ignored() {
        let entry = entry_name(&hash(b"key"));
        assert_eq!(entry, "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683.plan");
        assert_eq!(kind(&entry), Some(StoreFile::Entry));
        assert_eq!(kind(&temporary_name(u32::MAX, 7, 0)), Some(StoreFile::Temporary));
        let upper = entry.to_uppercase();
        let others = [TAG, ".plan", "notes.plan", &upper, "tmp-", "tmp-1-2", "tmp-1-2-3", "tmp-x-1-0123456789abcdef"];
        for name in others.into_iter().chain(["tmp-1-2-0123456789abcdef-x", "thesis.pdf", "tmp--1-0123456789abcdef"]) {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
