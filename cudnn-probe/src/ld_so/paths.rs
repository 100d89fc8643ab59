//! Implements the search order of ld.so: RPATH, LD_LIBRARY_PATH, RUNPATH, the cache, and the default directories. The
//! loader and the simulation share this code.

use crate::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_os::files::{bytes_of, path_from_bytes};

use crate::error::ProbeError;
use crate::host::Host;
use crate::image::{Links, links};
use crate::platform::hwcaps;

use super::cache::Cache;
use super::rule::Rule;
use super::{layout, tokens};

/// The directories that ld.so searches for a library name, apart from the run path of the requesting file.
#[derive(Clone, Debug)]
pub struct SearchPath {
    /// `LD_LIBRARY_PATH`, including subdirectories for this processor.
    library_path: Vec<PathBuf>,
    cache: Cache,
    /// The default directories, including subdirectories for this processor.
    default_dirs: Vec<PathBuf>,
    hwcaps: Vec<String>,
}

/// Provides file information to a search, either from disk ([`OnDisk`]) or from a cache.
pub(super) trait Files {
    /// Returns whether ld.so would try to load the file. It skips missing and unreadable files and files for other
    /// processors, but stops at any other file.
    fn is_candidate(&self, file: &Path) -> bool;
    fn is_dir(&self, dir: &Path) -> bool;
}

/// Reads all information from disk.
pub(super) struct OnDisk;

impl SearchPath {
    /// Reads `LD_LIBRARY_PATH` and the cache of this host.
    ///
    /// Unlike ld.so, this ignores relative directories in `LD_LIBRARY_PATH`, as well as empty ones, which stand for the
    /// working directory.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        SearchPath::read(host, library_path(host))
    }

    /// Returns the search path of ld.so in a process of this program, including relative directories.
    pub(super) fn from_program(host: &Host, program: &Path) -> Self {
        let origin = program.parent().unwrap_or(Path::new("/"));
        let dir = |dir: &[u8]| {
            let dir = if dir.is_empty() { PathBuf::from(".") } else { path_from_bytes(dir) };
            let dir = tokens::substitute(host, dir.as_os_str(), origin, false)?;
            Some(crate::facts::absolute(&dir).unwrap_or(dir))
        };
        SearchPath::read(host, split_library_path(host, dir))
    }

    fn read(host: &Host, library_path: Vec<PathBuf>) -> Self {
        let hwcaps: Vec<String> = facts::ask("hwcaps", "", || hwcaps().into_iter().map(str::to_owned).collect());
        SearchPath {
            library_path: with_hwcaps(&library_path, &hwcaps, &OnDisk),
            cache: Cache::new(host),
            default_dirs: with_hwcaps(&layout::default_dirs(host), &hwcaps, &OnDisk),
            hwcaps,
        }
    }

    /// Returns the file that ld.so would choose for this name (such as `libcudnn_graph.so.9`), if the requesting
    /// library has this `DT_RUNPATH`. The search covers `LD_LIBRARY_PATH`, the run path, the cache, and the default
    /// directories, in this order.
    ///
    /// Like ld.so, it skips files for other processors but returns a damaged file, because ld.so would stop there.
    #[must_use]
    pub fn resolve(&self, name: &str, run_path: &[PathBuf]) -> Option<PathBuf> {
        self.find(name, [], (Path::new(""), run_path), false, &OnDisk).map(|(file, _)| file)
    }

    /// Like [`SearchPath::resolve`], but also takes the applicable RPATHs (nearest first) and the `DF_1_NODEFLIB` flag
    /// of the requesting file, and returns the rule. Run paths come with the files that contain them.
    pub(super) fn find<'a>(
        &self,
        name: &str,
        rpaths: impl IntoIterator<Item = (&'a Path, &'a [PathBuf])>,
        (requester, runpath): (&Path, &[PathBuf]),
        no_default_dirs: bool,
        files: &impl Files,
    ) -> Option<(PathBuf, Rule)> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        for (object, dirs) in rpaths {
            if let Some(file) = in_dirs(&with_hwcaps(dirs, &self.hwcaps, files), name, files) {
                return Some((file, Rule::Rpath(object.to_owned())));
            }
        }
        if let Some(file) = in_dirs(&self.library_path, name, files) {
            return Some((file, Rule::LibraryPath));
        }
        if let Some(file) = in_dirs(&with_hwcaps(runpath, &self.hwcaps, files), name, files) {
            return Some((file, Rule::Runpath(requester.to_owned())));
        }
        let is_excluded = |file: &PathBuf| no_default_dirs && self.default_dirs.iter().any(|dir| file.starts_with(dir));
        let is_taken = |file: &PathBuf| files.is_candidate(file) && !is_excluded(file);
        if let Some(file) = self.cache.files(name).find(is_taken) {
            return Some((file, Rule::Cache));
        }
        if no_default_dirs {
            return None;
        }
        in_dirs(&self.default_dirs, name, files).map(|file| (file, Rule::Default))
    }
}

/// Returns the absolute directories in `LD_LIBRARY_PATH`.
pub(crate) fn library_path(host: &Host) -> Vec<PathBuf> {
    let origin = host.program_dir();
    split_library_path(host, |dir| {
        // If the program is unknown, directories with `$ORIGIN` become relative.
        tokens::expand_tokens(host, path_from_bytes(dir).as_os_str(), origin.unwrap_or(Path::new("")))
    })
}

fn split_library_path(host: &Host, dir: impl Fn(&[u8]) -> Option<PathBuf>) -> Vec<PathBuf> {
    let Some(variable) = host.variable("LD_LIBRARY_PATH") else { return Vec::new() };
    // ld.so also accepts semicolons.
    bytes_of(&variable).split(|byte| matches!(byte, b':' | b';')).filter_map(dir).collect()
}

/// Adds the existing subdirectories for this processor before each directory. Few directories have such subdirectories,
/// so they are checked once for all names.
fn with_hwcaps(dirs: &[PathBuf], hwcaps: &[String], files: &impl Files) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for dir in dirs {
        let special = dir.join("glibc-hwcaps");
        if files.is_dir(&special) {
            all.extend(hwcaps.iter().map(|level| special.join(level)));
        }
        all.push(dir.clone());
    }
    all
}

/// Returns the file in the first directory that contains it.
fn in_dirs(dirs: &[PathBuf], name: &str, files: &impl Files) -> Option<PathBuf> {
    dirs.iter().map(|dir| dir.join(name)).find(|file| files.is_candidate(file))
}

impl Files for OnDisk {
    fn is_candidate(&self, file: &Path) -> bool {
        is_candidate(file)
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.leads_to_dir()
    }
}

/// Returns whether ld.so would try to load this file, because it is readable and built for this processor.
#[must_use]
pub fn is_candidate(file: &Path) -> bool {
    match lookup(file) {
        FileLookup::Missing => false,
        FileLookup::Blocked => true,
        FileLookup::Exists => is_taken(links(file).as_ref()),
    }
}

/// The result of looking up a name without opening the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileLookup {
    Exists,
    /// The link is a part of a loop, or leads below a file. Other than after a missing file, ld.so ends the search.
    Blocked,
    Missing,
}

/// Looks up a name. Most names that ld.so tries are missing, which a single directory lookup detects.
pub(super) fn lookup(file: &Path) -> FileLookup {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    match facts::metadata(file) {
        Ok(_) => FileLookup::Exists,
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied) || !file.is_link() => FileLookup::Missing,
        Err(_) => FileLookup::Blocked,
    }
}

/// Returns whether ld.so would try to load a file with these properties.
pub(super) fn is_taken(links: Result<&Links, &ProbeError>) -> bool {
    match links {
        Ok(_) => true,
        Err(ProbeError::WrongArchitecture { .. } | ProbeError::NotFound | ProbeError::BrokenLink { .. }) => false,
        Err(ProbeError::Unreadable { error }) => error.kind() != std::io::ErrorKind::PermissionDenied,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::tests::cache;
    use super::*;
    use crate::platform::LD_CACHE_FLAGS;

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn a_file_that_forbids_the_default_directories_gets_nothing_in_them_from_the_cache_either() {
        let root = std::env::temp_dir().join(format!("cudnn-probe-nodeflib-{}", std::process::id()));
        let host = Host::sandbox(&root);
        let Some(default) = layout::default_dirs(&host).pop() else { return };
        // Any text works, because ld.so stops at a damaged file.
        let write = |path: &Path, bytes: &[u8]| {
            let dir = path.parent().unwrap_or(path);
            assert!(std::fs::create_dir_all(dir).and_then(|()| std::fs::write(path, bytes)).is_ok(), "{path:?}");
        };
        for (dir, expected) in [(host.system("/opt"), Some(Rule::Cache)), (default, None)] {
            let file = dir.join("libx");
            write(&file, b"no library");
            let listed = Path::new("/").join(file.strip_prefix(&root).unwrap_or(&file));
            write(&host.system("/etc/ld.so.cache"), &cache(LD_CACHE_FLAGS, "libx", &listed.to_string_lossy(), 1));
            let path = SearchPath::new(&host);
            let rule = |no_default_dirs| {
                path.find("libx", [], (Path::new(""), &[]), no_default_dirs, &OnDisk).map(|(_, rule)| rule)
            };
            assert_eq!(rule(false), Some(Rule::Cache), "{dir:?}");
            assert_eq!(rule(true), expected, "{dir:?}");
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir_all(root);
    }
}
