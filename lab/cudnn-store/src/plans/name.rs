//! The file names that the store uses. Files with other names are never touched.

use sha2::{Digest, Sha256};

use crate::captures::hexadecimal;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFile {
    /// An unfinished file with a name of `trusted_files::Directory::replace`.
    Temporary,
    Entry,
}

pub(crate) fn entry_name(hash: &Hash) -> String {
    hexadecimal(hash) + ENTRY_SUFFIX
}

/// Returns the kind of a file with this name, or `None` if it does not belong to a store.
pub(crate) fn kind(name: &str) -> Option<StoreFile> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if let Some(hash) = name.strip_suffix(ENTRY_SUFFIX) {
        return (hash.len() == 64 && is_hex(hash)).then_some(StoreFile::Entry);
    }
    let (process, random) = name.strip_prefix("tmp-")?.split_once('-')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && random.len() == 16 && is_hex(random)).then_some(StoreFile::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_file_names_are_ignored() {
        let entry = entry_name(&hash(b"key"));
        assert_eq!(entry, "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683.plan");
        assert_eq!(kind(&entry), Some(StoreFile::Entry));
        assert_eq!(kind("tmp-4294967295-0123456789abcdef"), Some(StoreFile::Temporary));
        let upper = entry.to_uppercase();
        let others = [TAG, ".plan", "notes.plan", &upper, "tmp-", "tmp-1", "tmp-1-2", "tmp-x-0123456789abcdef"];
        for name in others.into_iter().chain(["tmp-1-0123456789abcdef-x", "thesis.pdf", "tmp--0123456789abcdef"]) {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
