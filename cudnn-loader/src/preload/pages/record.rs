//! Records which pages a process has mapped, as reported by the operating system.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_os::pages;

use super::format::UNIT;
use super::place::is_wanted;
use super::{FilePages, PageList};

/// Gaps up to this size are read as well, because a disk reads one long range as fast as two short ranges.
const GAP: u64 = 64 * UNIT;

/// The cuDNN library that determines the installation's directory.
const GRAPH: &str = "libcudnn_graph.so.9";

/// File name prefixes in the order of use. Other files follow.
const ORDER: &[&str] =
    &[GRAPH, "libcuda.so", "libcublasLt", "libcudnn_engines_precompiled", "libcudnn_engines_runtime"];

pub(super) fn record(process: u32) -> io::Result<PageList> {
    let mut found: BTreeMap<PathBuf, Vec<Range<u64>>> = BTreeMap::new();
    for (path, ranges) in pages::mapped(process, is_wanted)? {
        found.entry(path).or_default().extend(ranges);
    }
    let graph = found.keys().find(|path| path.ends_with(GRAPH)).and_then(|path| path.parent()).map(Path::to_owned);
    let Some(installation) = graph else {
        return Err(io::Error::other(format!("process {process} has not loaded {GRAPH}")));
    };
    let mut files = Vec::new();
    for (path, ranges) in found {
        let (size, modified, _) = pages::regular_file(&path)?;
        let mut ranges = joined(ranges);
        // A mapped page may be larger than the unit of page lists.
        ranges.iter_mut().for_each(|range| range.end = range.end.min(size.next_multiple_of(UNIT)));
        ranges.retain(|range| range.start < range.end);
        files.push(FilePages { path, size, modified, ranges });
    }
    files.sort_by_key(|file| {
        let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ORDER.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(ORDER.len())
    });
    let program = pages::program(process)?.parent().map(Path::to_owned);
    Ok(PageList { installation, program, files })
}

/// Sorts the ranges and fills small gaps.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end + GAP => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_gaps_are_filled() {
        let apart = GAP * 3 + UNIT;
        let ranges = vec![apart..apart + UNIT, 0..UNIT, UNIT..2 * UNIT, (2 * UNIT + GAP)..(GAP * 2)];
        assert_eq!(joined(ranges), vec![0..GAP * 2, apart..apart + UNIT]);
        assert_eq!(joined(Vec::new()), Vec::new());
    }
}
