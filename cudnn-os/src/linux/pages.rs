//! Lists resident pages of mapped files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::files::path_from_bytes;
use crate::trusted_files::TrustError;

/// The maximum size of a page list file in bytes. Typical lists have 10 KB.
const MOST: u64 = 1 << 20;

/// The maximum size of the mapped files to examine, in bytes. A program maps several gigabytes of cuDNN and CUDA, but a
/// sparse file may be much larger.
const MOST_MAPPED: u64 = 16 << 30;

const PART: usize = 8 << 10;

/// Returns the size, the modification time in seconds and the inode number of a regular file, without opening it.
pub fn regular_file(path: &Path) -> io::Result<(u64, i64, u64)> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((metadata.len(), metadata.mtime(), metadata.ino()))
}

/// Reads a small regular file of this user or root that other users cannot modify.
///
/// # Errors
/// Returns an error if the file is untrusted or unreadable.
pub fn read_trusted(path: &Path) -> io::Result<Vec<u8>> {
    let file = crate::trusted_files::open(path).map_err(to_io_error)?;
    let size = file.stat()?.size.min(MOST);
    file.read(0, size)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn to_io_error(error: impl Into<TrustError>) -> io::Error {
    match error.into() {
        TrustError::System(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

/// Returns the executable file of a process.
pub fn program(process: u32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/exe"))
}

/// Returns the files that a process has mapped, with the ranges that are in memory.
pub fn mapped(process: u32, is_wanted: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, Vec<Range<u64>>)>> {
    let named = |error: io::Error, file: &str| io::Error::new(error.kind(), format!("{file}: {error}"));
    let maps = format!("/proc/{process}/maps");
    let map = format!("/proc/{process}/pagemap");
    let text = std::fs::read(&maps).map_err(|error| named(error, &maps))?;
    let pagemap = File::open(&map).map_err(|error| named(error, &map))?;
    // SAFETY: the argument is a plain integer.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(4096);
    let mut found = Vec::new();
    let mut left = MOST_MAPPED / page;
    for line in text.split(|byte| *byte == b'\n') {
        let Some(mapping) = Mapping::parse(line) else { continue };
        // A replaced file has a different inode number.
        let is_same = regular_file(&mapping.path).is_ok_and(|(_, _, number)| number == mapping.file_number);
        if !is_wanted(&mapping.path) || !is_same {
            continue;
        }
        let count = (mapping.end - mapping.start) / page;
        left = left.checked_sub(count).ok_or_else(|| {
            let gigabytes = MOST_MAPPED >> 30;
            io::Error::other(format!(
                "process {process} has mapped more than {gigabytes} GB of libraries: {:?}",
                mapping.path
            ))
        })?;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut entries = vec![0; PART * 8];
        for first in (0..count).step_by(PART) {
            let length = usize::try_from(count - first).unwrap_or(PART).min(PART) * 8;
            let entries = entries.get_mut(..length).unwrap_or_default();
            pagemap.read_exact_at(entries, (mapping.start / page + first) * 8).map_err(|error| named(error, &map))?;
            let (present, _) = entries.as_chunks::<8>();
            for (index, entry) in (first..).zip(present) {
                // The page is in memory or swapped out. Private copies also count, because the file was read.
                if u64::from_le_bytes(*entry) >> 62 == 0 {
                    continue;
                }
                let start = mapping.offset.saturating_add(index * page);
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end += page,
                    _ => ranges.push(start..start + page),
                }
            }
        }
        found.push((mapping.path, ranges));
    }
    Ok(found)
}

/// A line of `maps`, such as `7f00-7f10 r-xp 00001000 fd:01 1234    /usr/lib/libc.so.6`.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file_number: u64,
    path: PathBuf,
}

impl Mapping {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let length = rest.iter().position(|byte| *byte == b' ')?;
            let (field, after) = rest.split_at_checked(length)?;
            rest = after.trim_ascii_start();
            std::str::from_utf8(field).ok()
        };
        let (addresses, _, offset, _, file_number) = (field()?, field()?, field()?, field()?, field()?);
        let (start, end) = addresses.split_once('-')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        Some(Mapping {
            start,
            end: end.max(start),
            offset: hexadecimal(offset)?,
            file_number: file_number.parse().ok()?,
            path: path_from_bytes(&unescaped(rest)),
        })
    }
}

/// Decodes `\012`, which the kernel writes for a newline. Other characters are not escaped.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let (next, byte) = match rest.strip_prefix(b"\\012") {
            Some(after) => (after, &b'\n'),
            None => (after, first),
        };
        rest = next;
        bytes.push(*byte);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f0000001000-7f0000003000 r--p 00002000 fd:01 4711                       /a b\\012c/lib\xff.so";
        let mapping = Mapping::parse(line).unwrap();
        let numbers = (mapping.start, mapping.end, mapping.offset, mapping.file_number);
        assert_eq!(numbers, (0x7f00_0000_1000, 0x7f00_0000_3000, 0x2000, 4711));
        assert_eq!(mapping.path.as_os_str().as_bytes(), b"/a b\nc/lib\xff.so");
        for other in [&b""[..], b"7f00-7f01 rw-p 00000000 00:00 0", b"x-y rw-p 0 0 0 /a", b"1-2"] {
            assert!(Mapping::parse(other).is_none_or(|mapping| mapping.path.as_os_str().is_empty()));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter's addresses are not the process's")]
    fn this_process_has_mapped_its_libc() {
        let is_libc = |path: &Path| path.to_string_lossy().contains("libc.so");
        let found = mapped(std::process::id(), is_libc).unwrap();
        assert!(!found.is_empty() && found.iter().any(|(_, ranges)| !ranges.is_empty()), "{found:?}");
    }
}
