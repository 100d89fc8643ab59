//! Reads untrusted files with limits: small texts, directory entries, and strings in large files.

use cudnn_probe::facts::{PathFacts, entries_named};
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_probe::{canonicalize, read_bounded};
use memchr::memmem;

/// The maximum number of files for a pattern.
const MAX_FILES: usize = 32;
/// This length fits the processor's cache.
const BLOCK_LEN: usize = 64 << 10;

pub(crate) fn read_text(file: &Path, max_len: u64) -> Option<String> {
    let text = String::from_utf8(read_bounded(file, max_len).ok()?);
    Some(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the path with symbolic links resolved, if it exists.
pub fn real_path(path: &Path) -> PathBuf {
    canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the files that match a relative pattern below a directory, in alphabetical order. `*` matches any characters
/// of the file name. Directories are names or `..`.
pub(crate) fn matching(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let (below, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let dir = below.split('/').fold(dir.to_owned(), |dir, part| match part {
        "" => dir,
        ".." => dir.parent().map(Path::to_owned).unwrap_or(dir),
        _ => dir.join(part),
    });
    let mut files =
        if name.contains('*') { entries_named(&dir, name, |file| fits(name, file)) } else { vec![dir.join(name)] };
    files.retain(|file| file.leads_to_file());
    files.truncate(MAX_FILES);
    files
}

pub(crate) fn first_matching(dir: &Path, pattern: &str) -> Option<PathBuf> {
    matching(dir, pattern).into_iter().next()
}

pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// Calls `find` with one block of a file's part after another, and with whether it is the last one, until it returns a
/// value. Blocks overlap by this number of bytes, because a text may span two. Returns the system's errors.
pub(crate) fn find_in_blocks<T>(
    mut file: &File,
    part: &Range<u64>,
    overlap: usize,
    mut find: impl FnMut(&[u8], bool) -> Option<T>,
) -> Result<Option<T>> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + overlap);
    loop {
        block.drain(..block.len().saturating_sub(overlap));
        let is_last = (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? < BLOCK_LEN;
        let found = find(&block, is_last);
        if found.is_some() || is_last {
            return Ok(found);
        }
    }
}

/// Returns whether a part of the file contains the text where `counts` accepts it, given the surrounding bytes and the
/// index. Returns the system's errors.
pub(crate) fn contains(
    file: &File,
    part: &Range<u64>,
    text: &[u8],
    counts: impl Fn(&[u8], usize) -> bool,
) -> Result<bool> {
    // The preceding byte is needed as well.
    let found = find_in_blocks(file, part, text.len() + 1, |block, _| {
        memmem::find_iter(block, text).any(|at| counts(block, at)).then_some(())
    });
    Ok(found?.is_some())
}

#[cfg(test)]
mod tests;
