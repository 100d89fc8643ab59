//! Reads untrusted files with limits: small texts, directory entries, and strings in large files.

use cudnn_probe::facts::{PathFacts, entries_named};
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_probe::read_bounded;
use memchr::memmem;

/// The maximum number of files for a pattern.
const MAX_FILES: usize = 32;
/// Blocks of this length stay in the processor's cache.
const BLOCK_LEN: usize = 64 << 10;

/// Returns the text of a regular file up to this length.
pub(crate) fn read_text(file: &Path, max_len: u64) -> Option<String> {
    let text = String::from_utf8(read_bounded(file, max_len).ok()?);
    Some(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Returns the name of a file, or an empty string if it is not UTF-8.
pub(crate) fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the files that match a relative pattern below a directory, in alphabetical order. `*` matches any characters
/// in the file name; directories are names or `..`.
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

/// Returns the first file that matches a pattern below a directory.
pub(crate) fn first_matching(dir: &Path, pattern: &str) -> Option<PathBuf> {
    matching(dir, pattern).into_iter().next()
}

/// Returns whether a file name matches a pattern with `*`.
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

/// Returns whether a part of the file contains the text in a position that counts. `counts` receives the surrounding
/// bytes and the index of the text.
///
/// # Errors
///
/// Returns the system's error.
pub(crate) fn contains(
    mut file: &File,
    part: &Range<u64>,
    text: &[u8],
    counts: impl Fn(&[u8], usize) -> bool,
) -> Result<bool> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.take(part.end.saturating_sub(part.start));
    let mut block = Vec::with_capacity(BLOCK_LEN + text.len() + 1);
    loop {
        // The text may span two blocks; the byte before it is needed as well.
        let kept = block.len().min(text.len() + 1);
        block.drain(..block.len() - kept);
        if (&mut rest).take(BLOCK_LEN as u64).read_to_end(&mut block)? == 0 {
            return Ok(false);
        }
        if memmem::find_iter(&block, text).any(|at| counts(&block, at)) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
