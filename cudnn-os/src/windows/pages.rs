//! Page lists are not supported on Windows.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub fn regular_file(_: &Path) -> io::Result<(u64, i64, u64)> {
    unsupported()
}

pub fn read_trusted(_: &Path) -> io::Result<Vec<u8>> {
    unsupported()
}

pub fn program(_: u32) -> io::Result<PathBuf> {
    unsupported()
}

pub fn mapped(_: u32, _: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, Vec<Range<u64>>)>> {
    unsupported()
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "page lists are supported only on Linux"))
}
