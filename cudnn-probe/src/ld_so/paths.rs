//! The order of ld.so's search: RPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default directories. It is written here
//! once, for the loader and for the simulation.

use crate::facts::{self, PathFacts};
use std::path::{Path, PathBuf};

use cudnn_os::files::{bytes_of, path_from_bytes};

use crate::error::ProbeError;
use crate::host::Host;
use crate::image::{Links, links};
use crate::platform::hwcaps;

use super::cache::Cache;
use super::{layout, tokens};

/// The directories that ld.so searches for a library's name, besides the run path of the file that needs the library.
#[derive(Clone, Debug)]
pub struct SearchPath {
    host: Host,
    /// `LD_LIBRARY_PATH`, with the subdirectories for this processor.
    library_path: Vec<PathBuf>,
    cache: Cache,
    /// With the subdirectories for this processor.
    default_dirs: Vec<PathBuf>,
    hwcaps: Vec<&'static str>,
}

/// How a search sees files: as they are ([`OnDisk`]), or as somebody knows them.
pub(super) trait Files {
    /// ld.so skips files that are missing, unreadable or for another processor. It stops at any other file.
    fn is_candidate(&self, file: &Path) -> bool;
    fn is_dir(&self, dir: &Path) -> bool;
}

/// The files as they are.
pub(super) struct OnDisk;

/// The step of the search that found a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The RPATH with this index.
    Rpath(usize),
    LibraryPath,
    Runpath,
    Cache,
    DefaultDir,
}

impl SearchPath {
    /// Reads `LD_LIBRARY_PATH` and the cache of this host.
    ///
    /// In contrast to ld.so, relative directories in `LD_LIBRARY_PATH` are ignored, and so are empty ones, which stand
    /// for the working directory.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        SearchPath::read(host, library_path(host))
    }

    /// The search path that ld.so has in a process of this program, including relative directories.
    pub(super) fn of_program(host: &Host, program: &Path) -> Self {
        let origin = program.parent().unwrap_or(Path::new("/"));
        let dir = |dir: &[u8]| {
            let dir = if dir.is_empty() { PathBuf::from(".") } else { path_from_bytes(dir) };
            let dir = tokens::substitute(host, dir.as_os_str(), origin, false)?;
            Some(crate::facts::absolute(&dir).unwrap_or(dir))
        };
        SearchPath::read(host, split_library_path(host, dir))
    }

    fn read(host: &Host, library_path: Vec<PathBuf>) -> Self {
        let hwcaps: Vec<&'static str> = facts::ask("hwcaps", "", hwcaps);
        SearchPath {
            library_path: with_hwcaps(&library_path, &hwcaps, &OnDisk),
            cache: Cache::read(host),
            default_dirs: with_hwcaps(&layout::default_dirs(host), &hwcaps, &OnDisk),
            hwcaps,
            host: host.clone(),
        }
    }

    /// The file that ld.so would choose for this name (`libcudnn_graph.so.9`) if a library with this `DT_RUNPATH` asked
    /// for it: from `LD_LIBRARY_PATH`, the run path, the cache, or a default directory, in this order.
    ///
    /// Like ld.so it skips files for other processors, and returns a damaged file: ld.so would stop there.
    #[must_use]
    pub fn resolve(&self, name: &str, run_path: &[PathBuf]) -> Option<PathBuf> {
        self.find(name, [], run_path, false, &OnDisk).map(|(file, _)| file)
    }

    /// Like [`SearchPath::resolve`], with the RPATHs that apply, nearest first, and the flag `DF_1_NODEFLIB` of the
    /// requesting file.
    pub(super) fn find<'a>(
        &self,
        name: &str,
        rpaths: impl IntoIterator<Item = (usize, &'a [PathBuf])>,
        runpath: &[PathBuf],
        no_default_dirs: bool,
        files: &impl Files,
    ) -> Option<(PathBuf, Step)> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        for (index, dirs) in rpaths {
            if let Some(file) = in_dirs(&with_hwcaps(dirs, &self.hwcaps, files), name, files) {
                return Some((file, Step::Rpath(index)));
            }
        }
        if let Some(file) = in_dirs(&self.library_path, name, files) {
            return Some((file, Step::LibraryPath));
        }
        if let Some(file) = in_dirs(&with_hwcaps(runpath, &self.hwcaps, files), name, files) {
            return Some((file, Step::Runpath));
        }
        let is_excluded = |file: &PathBuf| no_default_dirs && self.default_dirs.iter().any(|dir| file.starts_with(dir));
        let is_taken = |file: &PathBuf| files.is_candidate(file) && !is_excluded(file);
        if let Some(file) = self.cache.files(&self.host, name).find(is_taken) {
            return Some((file, Step::Cache));
        }
        if no_default_dirs {
            return None;
        }
        in_dirs(&self.default_dirs, name, files).map(|file| (file, Step::DefaultDir))
    }
}

/// The absolute directories of `LD_LIBRARY_PATH`.
pub(crate) fn library_path(host: &Host) -> Vec<PathBuf> {
    let origin = host.program_dir();
    split_library_path(host, |dir| {
        // Without a known program, a directory with `$ORIGIN` becomes a relative one.
        tokens::expand_tokens(host, path_from_bytes(dir).as_os_str(), origin.unwrap_or(Path::new("")))
    })
}

fn split_library_path(host: &Host, dir: impl Fn(&[u8]) -> Option<PathBuf>) -> Vec<PathBuf> {
    let Some(variable) = host.variable("LD_LIBRARY_PATH") else { return Vec::new() };
    // ld.so accepts semicolons, too.
    bytes_of(&variable).split(|byte| matches!(byte, b':' | b';')).filter_map(dir).collect()
}

/// Each directory after its subdirectories for this processor. Few directories have these, so this looks once for all
/// names.
fn with_hwcaps(dirs: &[PathBuf], hwcaps: &[&str], files: &impl Files) -> Vec<PathBuf> {
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

/// The file in the first of these directories that has it.
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

/// Returns whether ld.so would try this file: one that it can read, for this processor.
#[must_use]
pub fn is_candidate(file: &Path) -> bool {
    // Most names that ld.so tries do not exist: one look at the directory must do for them.
    file.target_exists() && is_taken(links(file).as_ref())
}

/// Does ld.so take a file, of which it reads this?
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
    #[cfg_attr(miri, ignore = "Miri does not know O_NONBLOCK")]
    fn a_file_that_forbids_the_default_directories_gets_nothing_in_them_from_the_cache_either() {
        let root = std::env::temp_dir().join(format!("cudnn-probe-nodeflib-{}", std::process::id()));
        let host = Host::sandbox(&root);
        let Some(default) = layout::default_dirs(&host).pop() else { return };
        // ld.so stops at a damaged file, so any text does.
        let write = |path: &Path, bytes: &[u8]| {
            let dir = path.parent().unwrap_or(path);
            assert!(std::fs::create_dir_all(dir).and_then(|()| std::fs::write(path, bytes)).is_ok(), "{path:?}");
        };
        for (dir, expected) in [(host.system("/opt"), Some(Step::Cache)), (default, None)] {
            let file = dir.join("libx");
            write(&file, b"no library");
            let listed = Path::new("/").join(file.strip_prefix(&root).unwrap_or(&file));
            write(&host.system("/etc/ld.so.cache"), &cache(LD_CACHE_FLAGS, "libx", &listed.to_string_lossy(), 1));
            let path = SearchPath::new(&host);
            let step = |no_default_dirs| path.find("libx", [], &[], no_default_dirs, &OnDisk).map(|(_, step)| step);
            assert_eq!(step(false), Some(Step::Cache), "{dir:?}");
            assert_eq!(step(true), expected, "{dir:?}");
            let _ = std::fs::remove_file(file);
        }
        let _ = std::fs::remove_dir_all(root);
    }
}
