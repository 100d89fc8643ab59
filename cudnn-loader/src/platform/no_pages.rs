//! Lists of pages, which are kept on Linux alone: other systems do not say which pages of files a process has mapped.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) const CACHES: &[(&str, &str)] = &[];

pub(crate) fn path(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

pub(crate) fn regular_file(_: &Path) -> io::Result<(u64, i64, u64)> {
    unsupported()
}

pub(crate) fn request(_: &Path, _: &[Range<u64>]) -> io::Result<()> {
    unsupported()
}

pub(crate) fn check_directory(_: &Path) -> io::Result<()> {
    unsupported()
}

pub(crate) fn read_trusted(_: &Path) -> io::Result<Vec<u8>> {
    unsupported()
}

pub(crate) fn program(_: u32) -> io::Result<PathBuf> {
    unsupported()
}

pub(crate) fn mapped(_: u32, _: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, Vec<Range<u64>>)>> {
    unsupported()
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "lists of pages are kept on Linux alone"))
}
