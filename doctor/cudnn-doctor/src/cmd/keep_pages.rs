//! `preload --keep`: saves a list of the pages that were mapped during startup, so that later preloads can request
//! them first.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::outln;
use cudnn_cli::shell::set_variable;
use cudnn_loader::Library;
use cudnn_loader::preload::pages::{FILE_VARIABLE, FilePages, PageList, is_wanted};
use cudnn_os::files::is_replaceable;
use cudnn_os::{pages, trusted_files};
use serde_json::{Value, json};

/// Gaps up to this size are read as well, because a disk reads one long range as fast as two short ranges.
const GAP: u64 = 256 << 10;

/// File name prefixes in the order of use. Other files follow.
const ORDER: &[&str] =
    &["libcudnn_graph", "libcuda.so", "libcublasLt", "libcudnn_engines_precompiled", "libcudnn_engines_runtime"];

/// A saved list.
pub(crate) struct KeptPages {
    list: PageList,
    installation: PathBuf,
    file: PathBuf,
}

/// Saves the page list of a process in a file.
///
/// # Errors
/// The reason why reading or writing failed.
pub(crate) fn keep(process: u32, file: &Path) -> Result<KeptPages, String> {
    let cannot_write = |reason: String| format!("cannot write {}: {}", file.printable(), reason.printable());
    if !is_replaceable(file, PageList::is_list).map_err(|error| cannot_write(error.to_string()))? {
        return Err(format!("{} exists and is not a list of pages; name another file", file.printable()));
    }
    let list = record(process).map_err(|error| error.to_string())?;
    let graph = list.files.iter().find(|file| file.path.ends_with(Library::Graph.file_name()));
    let installation = graph.and_then(|graph| graph.path.parent());
    let installation = installation.ok_or_else(|| format!("process {process} has not loaded {}", Library::Graph))?;
    trusted_files::replace(file, std::iter::once(list.encode().as_bytes()))
        .map_err(|reason| cannot_write(reason.to_string()))?;
    Ok(KeptPages { installation: installation.to_owned(), list, file: file.to_owned() })
}

/// Records the pages that a process has mapped from the libraries of cuDNN, CUDA and the driver. The system must allow
/// this process to inspect it.
fn record(process: u32) -> io::Result<PageList> {
    // A list has one line per file.
    let is_listed = |path: &Path| is_wanted(path) && path.to_str().is_some_and(|path| !path.contains('\n'));
    let mut found: BTreeMap<PathBuf, Vec<Range<u64>>> = BTreeMap::new();
    for (path, ranges) in pages::mapped(process, is_listed)? {
        found.entry(path).or_default().extend(ranges);
    }
    let mut files = Vec::new();
    for (path, ranges) in found.into_iter().filter(|(_, ranges)| !ranges.is_empty()) {
        let (size, modified, _) = pages::regular_file(&path)?;
        files.push(FilePages { path, size, modified, ranges: joined(ranges, size) });
    }
    files.sort_by_key(|file| {
        let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ORDER.iter().position(|prefix| name.starts_with(prefix)).unwrap_or(ORDER.len())
    });
    Ok(PageList { files })
}

impl KeptPages {
    pub(crate) fn text(&self) {
        let (bytes, ranges) = self.sizes();
        let megabytes = bytes as f64 / f64::from(1 << 20);
        let files = self.list.files.len();
        outln!("\nkept: {megabytes:.1} MiB in {ranges} ranges of {files} files, in {}", self.file.printable());
        outln!("Preloads of cuDNN in {} use the list with this variable:", self.installation.printable());
        outln!("{}", set_variable(FILE_VARIABLE, &self.file));
    }

    pub(crate) fn value(&self) -> Value {
        let (bytes, ranges) = self.sizes();
        json!({
            "file": self.file.to_string_lossy(),
            "installation": self.installation.to_string_lossy(),
            "files": self.list.files.len(),
            "ranges": ranges,
            "bytes": bytes,
        })
    }

    fn sizes(&self) -> (u64, usize) {
        let ranges = || self.list.files.iter().flat_map(|file| &file.ranges);
        (ranges().map(|range| range.end - range.start).sum(), ranges().count())
    }
}

/// Sorts the ranges, fills small gaps, and ends the last page where the file ends.
fn joined(mut ranges: Vec<Range<u64>>, size: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for Range { start, end } in ranges {
        let end = end.min(size);
        match joined.last_mut() {
            Some(last) if start <= last.end + GAP => last.end = last.end.max(end),
            _ if start < end => joined.push(start..end),
            _ => {}
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_gaps_are_filled() {
        let (page, apart) = (4096, GAP * 3 + 1);
        let ranges = vec![apart..apart + page, 0..page, page..2 * page, (2 * page + GAP)..(GAP * 2)];
        assert_eq!(joined(ranges, apart + 1), vec![0..GAP * 2, apart..apart + 1]);
        assert_eq!(joined(Vec::new(), 1), Vec::new());
    }
}
