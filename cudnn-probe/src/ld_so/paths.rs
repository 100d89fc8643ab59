//! The order of ld.so's search: RPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default directories. It is written here
//! once, for the loader and for the simulation.

use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::host::Host;
use crate::image;
use crate::platform::{bytes_of, hwcaps, path_from_bytes};

use super::cache::Cache;
use super::{layout, tokens};

/// The directories that ld.so searches for a library's name, besides the run path of the file that needs the library.
#[derive(Clone, Debug)]
pub struct SearchPath {
    host: Host,
    library_path: Vec<PathBuf>,
    cache: Cache,
    default_dirs: Vec<PathBuf>,
    hwcaps: Vec<&'static str>,
}

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
        let origin = host.program_dir();
        SearchPath::read(host, |dir| {
            // Without a known program, a directory with `$ORIGIN` becomes a relative one.
            tokens::expand_tokens(host, path_from_bytes(dir).as_os_str(), origin.unwrap_or(Path::new("")))
        })
    }

    /// The search path that ld.so has in a process of this program, including relative directories.
    pub(super) fn of_program(host: &Host, program: &Path) -> Self {
        let origin = program.parent().unwrap_or(Path::new("/"));
        SearchPath::read(host, |dir| {
            let dir = if dir.is_empty() { PathBuf::from(".") } else { path_from_bytes(dir) };
            let dir = tokens::substitute(host, dir.as_os_str(), origin, false)?;
            Some(std::path::absolute(&dir).unwrap_or(dir))
        })
    }

    fn read(host: &Host, dir: impl Fn(&[u8]) -> Option<PathBuf>) -> Self {
        let variable = host.variable("LD_LIBRARY_PATH");
        let library_path = variable.map(|variable| {
            // ld.so accepts semicolons, too.
            bytes_of(&variable).split(|byte| matches!(byte, b':' | b';')).filter_map(dir).collect()
        });
        SearchPath {
            host: host.clone(),
            library_path: library_path.unwrap_or_default(),
            cache: Cache::read(&host.system("/etc/ld.so.cache")),
            default_dirs: layout::default_dirs(host),
            hwcaps: hwcaps(),
        }
    }

    /// The file that ld.so would choose for this name (`libcudnn_graph.so.9`) if a library with this `DT_RUNPATH` asked
    /// for it: from `LD_LIBRARY_PATH`, the run path, the cache, or a default directory, in this order.
    ///
    /// Like ld.so it skips files for other processors, and returns a damaged file: ld.so would stop there.
    #[must_use]
    pub fn resolve(&self, name: &str, run_path: &[PathBuf]) -> Option<PathBuf> {
        self.find(name, [], run_path, false).map(|(file, _)| file)
    }

    /// Like [`SearchPath::resolve`], with the RPATHs that apply, nearest first, and the flag `DF_1_NODEFLIB` of the
    /// requesting file.
    pub(super) fn find(
        &self,
        name: &str,
        rpaths: impl IntoIterator<Item = (usize, Vec<PathBuf>)>,
        runpath: &[PathBuf],
        no_default_dirs: bool,
    ) -> Option<(PathBuf, Step)> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        for (index, dirs) in rpaths {
            if let Some(file) = self.in_dirs(&dirs, name) {
                return Some((file, Step::Rpath(index)));
            }
        }
        if let Some(file) = self.in_dirs(&self.library_path, name) {
            return Some((file, Step::LibraryPath));
        }
        if let Some(file) = self.in_dirs(runpath, name) {
            return Some((file, Step::Runpath));
        }
        let is_excluded = |file: &PathBuf| no_default_dirs && self.default_dirs.iter().any(|dir| file.starts_with(dir));
        if let Some(file) = self.cached(name).find(|file| is_candidate(file) && !is_excluded(file)) {
            return Some((file, Step::Cache));
        }
        if no_default_dirs {
            return None;
        }
        self.in_dirs(&self.default_dirs, name).map(|file| (file, Step::DefaultDir))
    }

    /// The directories of `LD_LIBRARY_PATH`.
    pub(crate) fn library_path(&self) -> &[PathBuf] {
        &self.library_path
    }

    /// The files that the cache has for this name, whether they exist or not.
    pub(crate) fn cached(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.cache.files(name).into_iter().map(|file| self.host.system(file))
    }

    /// The directories that are built into ld.so, each once: `/lib` is a link to `/usr/lib` on most systems.
    pub(crate) fn default_dirs(&self) -> Vec<PathBuf> {
        let mut seen = Vec::new();
        let is_new = |dir: &&PathBuf| match std::fs::canonicalize(dir) {
            Ok(real) if seen.contains(&real) => false,
            Ok(real) => {
                seen.push(real);
                true
            }
            Err(_) => true,
        };
        self.default_dirs.iter().filter(is_new).cloned().collect()
    }

    /// The first of these directories, or of their subdirectories for this processor, that has the file.
    fn in_dirs(&self, dirs: &[PathBuf], name: &str) -> Option<PathBuf> {
        dirs.iter().find_map(|dir| {
            // Few directories have these subdirectories.
            let special = dir.join("glibc-hwcaps");
            let levels = if special.is_dir() { self.hwcaps.as_slice() } else { &[] };
            let special = levels.iter().map(|level| special.join(level).join(name));
            special.chain([dir.join(name)]).find(|file| is_candidate(file))
        })
    }
}

/// ld.so skips files that are missing, unreadable or for another processor. It stops at any other file.
fn is_candidate(file: &Path) -> bool {
    // Most names that ld.so tries do not exist: one look at the directory must do for them.
    if !file.exists() {
        return false;
    }
    match image::links(file) {
        Ok(_) => true,
        Err(ProbeError::WrongArchitecture { .. } | ProbeError::NotFound | ProbeError::BrokenLink { .. }) => false,
        Err(ProbeError::Unreadable { error }) => error.kind() != std::io::ErrorKind::PermissionDenied,
        Err(_) => true,
    }
}
