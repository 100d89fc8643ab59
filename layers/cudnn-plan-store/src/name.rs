//! The names of the files in a store's directory, in which the store touches no others, and of unfinished files
//! elsewhere.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// A SHA-256.
pub(crate) type Hash = [u8; 32];

/// The SHA-256 of these bytes.
pub(crate) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// The tag of a directory that a store has made, which also keeps the directory out of backups.
pub(crate) const TAG: &str = "CACHEDIR.TAG";

/// The tag's content. The first line is from the Cache Directory Tagging Specification.
pub(crate) const TAG_CONTENT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55
# This directory has compiled plans of cuDNN (cudnn-plan-store).
# `cudnn-doctor plans clear` empties it. Plans that are missing are built again.
";

const ENTRY_SUFFIX: &str = ".plan";
const TEMPORARY_PREFIX: &str = "tmp-";
const PAGES: (&str, &str) = ("pages-", ".list");

/// The kinds of files with such names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file that an entry, or the tag, is written to before it gets its name.
    Temporary,
    /// An entry.
    Entry,
    /// A list of pages that the loader reads ahead.
    Pages,
}

/// The name of the entry whose key has this hash.
pub(crate) fn of_entry(hash: &Hash) -> String {
    let mut name = String::with_capacity(64 + ENTRY_SUFFIX.len());
    for byte in hash {
        // A string takes everything.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(ENTRY_SUFFIX);
    name
}

/// A name that no other process or thread uses.
pub(crate) fn of_temporary(process: u32, count: u32, random: u64) -> String {
    format!("{TEMPORARY_PREFIX}{process}-{count}-{random:016x}")
}

/// A name beside this file that no other process or thread uses.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}-{:016x}", std::process::id(), random()));
    name.into()
}

/// A number that processes in two containers, which may have the same number, do not share.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// What a file with this name is, if it is the store's.
pub(crate) fn kind(name: &str) -> Option<Kind> {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if let Some(hash) = name.strip_suffix(ENTRY_SUFFIX) {
        return (hash.len() == 64 && is_hex(hash)).then_some(Kind::Entry);
    }
    if let Some(hash) = name.strip_prefix(PAGES.0).and_then(|rest| rest.strip_suffix(PAGES.1)) {
        return (hash.len() == 16 && is_hex(hash)).then_some(Kind::Pages);
    }
    let mut parts = name.strip_prefix(TEMPORARY_PREFIX)?.split('-');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_temporary = is_number(parts.next()?)
        && is_number(parts.next()?)
        && parts.next().is_some_and(|random| random.len() == 16 && is_hex(random))
        && parts.next().is_none();
    is_temporary.then_some(Kind::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_names_are_the_stores() {
        let entry = of_entry(&hash(b"key"));
        assert_eq!(entry, "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683.plan");
        assert_eq!(kind(&entry), Some(Kind::Entry));
        assert_eq!(kind(&of_temporary(u32::MAX, 7, 0)), Some(Kind::Temporary));
        assert_eq!(kind("pages-0123456789abcdef.list"), Some(Kind::Pages));
        let upper = entry.to_uppercase();
        let others = [TAG, ".plan", "notes.plan", &upper, "tmp-", "tmp-1-2", "tmp-1-2-3", "tmp-x-1-0123456789abcdef"];
        for name in others.into_iter().chain([
            "tmp-1-2-0123456789abcdef-x",
            "thesis.pdf",
            "tmp--1-0123456789abcdef",
            "pages-1.list",
        ]) {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
