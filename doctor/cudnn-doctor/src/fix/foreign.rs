//! Finds files that a user other than root can change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use cudnn_os::rights::{is_only_of_root, is_sticky_of_root};
use cudnn_probe::canonicalize;
use cudnn_rules::packages::PYTHON_LINE_ENDS;

/// The maximum number of files to examine.
const MAX_FILES: usize = 1_000_000;

/// Why root must not trust code or settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Distrust {
    /// A user other than root can change this file or directory.
    Changeable(PathBuf),
    /// More than [`MAX_FILES`] files were found, the last one in this directory.
    TooMany(PathBuf),
    /// The settings in this variable, file or directory are not understood, for the reason in the second field.
    NotUnderstood(String, String),
    /// The project's settings in the working directory, which programs of root ignore.
    Unread(PathBuf),
}

/// Returns why root must not trust the files below these directories, or below directories that they add to Python's
/// search path. Python imports any file there, including compiled ones.
pub(super) fn changed_below(dirs: Vec<PathBuf>) -> Option<Distrust> {
    changed_among(dirs, MAX_FILES)
}

fn changed_among(mut dirs: Vec<PathBuf>, max: usize) -> Option<Distrust> {
    let changeable = |path: &PathBuf| changeable_by_others(path).map(Distrust::Changeable);
    if let Some(distrust) = dirs.iter().find_map(changeable) {
        return Some(distrust);
    }
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut count = 0;
    while let Some(dir) = dirs.pop() {
        let dir = canonicalize(&dir).unwrap_or(dir);
        if !seen.insert(dir.clone()) {
            continue;
        }
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            count += 1;
            if count > max {
                return Some(Distrust::TooMany(dir));
            }
            let path = entry.path();
            let metadata = entry.metadata().ok();
            if metadata.as_ref().is_some_and(Metadata::is_dir) {
                dirs.push(path.clone());
            } else if metadata.as_ref().is_none_or(Metadata::is_symlink) {
                // A device contains no code. The target of a dangling link may appear later.
                let is_device = path.metadata().is_ok_and(|target| !target.is_dir() && !target.is_file());
                if let Some(distrust) = changeable(&path).filter(|_| !is_device) {
                    return Some(distrust);
                }
                if path.is_dir() {
                    dirs.push(path);
                }
                continue;
            }
            // uv makes locks writable for all users, but never reads them.
            let is_lock = entry.file_name() == ".lock";
            if metadata.is_some_and(|metadata| !is_only_of_root(&metadata)) && !is_lock {
                return Some(Distrust::Changeable(path));
            }
            let is_startup = path.extension().is_some_and(|kind| kind == "pth")
                || entry.file_name().as_encoded_bytes().starts_with(b"__editable__");
            for named in if is_startup { named_in(&path) } else { Vec::new() } {
                if let Some(distrust) = changeable(&named) {
                    return Some(distrust);
                }
                dirs.push(named);
            }
        }
    }
    None
}

/// Returns the existing and missing paths that this file adds to Python's search path: the lines of a `.pth` file, and
/// quoted paths, as in finders of editable packages. Pythons differ in what ends a line, and in skipping a byte order mark.
fn named_in(file: &Path) -> Vec<PathBuf> {
    const MAX_LEN: u64 = 4 << 20;
    let text = cudnn_probe::read_bounded(file, MAX_LEN).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().chain(text.split(PYTHON_LINE_ENDS));
    let lines = lines.flat_map(|line| [line, line.trim_start_matches('\u{feff}')]);
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '"', '\'']));
    let quoted = text.split(['\'', '"']).filter(|text| text.starts_with('/') && text.len() > 1);
    let dir = file.parent().unwrap_or(Path::new("/"));
    lines.chain(quoted).map(|path| dir.join(path)).collect()
}

/// Returns the first directory, link or file on the way to this path that a user other than root can change. For a
/// missing path, the nearest existing directory counts.
pub(crate) fn changeable_by_others(path: &Path) -> Option<PathBuf> {
    // The system's own limit for following links.
    const MAX_LINKS: usize = 40;
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    // Root's commands run in the root directory.
    let mut left: Vec<OsString> = parts(&Path::new("/").join(path));
    let (mut place, mut links) = (PathBuf::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(part);
        let Ok(metadata) = next.symlink_metadata() else { break };
        if !is_only_of_root(&metadata) && !is_sticky_of_root(&metadata) {
            return Some(next);
        }
        if !metadata.is_symlink() {
            place = next;
            continue;
        }
        links += 1;
        match next.read_link() {
            Ok(_) if links > MAX_LINKS => return None,
            Ok(target) => left.extend(parts(&target)),
            Err(_) => return Some(next),
        }
    }
    // In a sticky directory, any user can create files but not replace root's.
    place.metadata().is_ok_and(|metadata| !is_only_of_root(&metadata)).then_some(place)
}

/// Like [`changeable_by_others`], for root's temporary files with new names.
pub(super) fn temporary_changeable_by_others(dir: &Path) -> Option<PathBuf> {
    let is_sticky = dir.metadata().is_ok_and(|metadata| is_sticky_of_root(&metadata));
    // If the directory exists, its permissions decide whether it is sticky.
    let is_temporary = |path: &PathBuf| is_sticky && path.metadata().is_ok_and(|metadata| is_sticky_of_root(&metadata));
    changeable_by_others(dir).filter(|path| !is_temporary(path))
}

#[cfg(all(test, unix))]
mod tests;
