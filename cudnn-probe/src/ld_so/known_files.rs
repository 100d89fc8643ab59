//! Caches file contents and missing files for several simulations.
//!
//! Each library is read once, and each missing name is looked up once. The owner of a cache decides how long files are
//! assumed to be unchanged. For example, a survey of an environment uses one cache. Without a cache, simulations always
//! read the files.

use crate::facts;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ProbeError;
use crate::image::{Links, links};

use super::paths::{FileLookup, Files, OnDisk, is_taken, lookup};

/// The maximum number of cached paths. An environment with ten frameworks needs several hundred. Malicious files may
/// request millions, and the excess is not cached.
const MAX_PATHS: usize = 1 << 14;

/// A cache of file information for [`Simulation::with_files`](super::Simulation::with_files). Clones share the same
/// contents. Keys are the bytes of paths, because they are fast to hash.
#[derive(Clone, Debug, Default)]
pub struct KnownFiles(Arc<Mutex<HashMap<OsString, Known>>>);

/// The cached information about a path.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Whether the file exists and is acceptable for ld.so.
    is_candidate: Option<bool>,
    is_dir: Option<bool>,
    /// The information that ld.so reads. Errors are not cached, because callers need the reason.
    links: Option<Arc<Links>>,
    /// The path with symbolic links resolved, if it exists.
    canonical: Option<Option<PathBuf>>,
}

impl KnownFiles {
    /// Creates an empty cache.
    #[must_use]
    pub fn new() -> Self {
        KnownFiles::default()
    }

    /// Resolves symbolic links. Returns `None` if the path is missing.
    #[must_use]
    pub fn canonical(&self, path: &Path) -> Option<PathBuf> {
        self.known(
            path,
            |known| known.canonical.clone(),
            || {
                let canonical = facts::canonicalize(path).ok();
                Known { canonical: Some(canonical), ..Known::default() }
            },
        )
        .flatten()
    }

    /// Returns the information that ld.so reads from a library or program.
    pub(super) fn links(&self, path: &Path) -> Result<Arc<Links>, ProbeError> {
        if let Some(links) = self.get(path, |known| known.links.clone()) {
            return Ok(links);
        }
        let links = Arc::new(links(path)?);
        self.add(path, Known { links: Some(links.clone()), ..Known::default() });
        Ok(links)
    }

    /// Returns cached information, or computes it outside of the lock and adds it to the cache.
    fn known<T>(&self, path: &Path, part: impl Fn(&Known) -> Option<T>, find: impl FnOnce() -> Known) -> Option<T> {
        self.get(path, &part).or_else(|| {
            let found = find();
            let value = part(&found);
            self.add(path, found);
            value
        })
    }

    fn get<T>(&self, path: &Path, part: impl FnOnce(&Known) -> Option<T>) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path.as_os_str()).and_then(part)
    }

    fn add(&self, path: &Path, found: Known) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MAX_PATHS && !files.contains_key(path.as_os_str()) {
            return;
        }
        let known = files.entry(path.as_os_str().to_owned()).or_default();
        known.is_candidate = found.is_candidate.or(known.is_candidate);
        known.is_dir = found.is_dir.or(known.is_dir);
        known.links = found.links.or(known.links.take());
        known.canonical = found.canonical.or(known.canonical.take());
    }
}

impl Files for KnownFiles {
    fn is_candidate(&self, file: &Path) -> bool {
        let find = || {
            let found = lookup(file);
            let links = if found == FileLookup::Exists { links(file).map(Arc::new) } else { Err(ProbeError::NotFound) };
            let is_candidate = found == FileLookup::Blocked || is_taken(links.as_ref().map(Arc::as_ref));
            Known { is_candidate: Some(is_candidate), links: links.ok(), ..Known::default() }
        };
        self.known(file, |known| known.is_candidate, find).unwrap_or_default()
    }

    fn is_dir(&self, dir: &Path) -> bool {
        let find = || Known { is_dir: Some(OnDisk.is_dir(dir)), ..Known::default() };
        self.known(dir, |known| known.is_dir, find).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "O_NONBLOCK is unsupported in Miri")]
    fn what_is_known_stays_for_the_life_of_the_value_and_no_longer() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-known-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // Any text works, because ld.so stops at a damaged file.
        let (here, absent) = (dir.join("libhere.so"), dir.join("libabsent.so"));
        std::fs::write(&here, "no library").unwrap();
        let files = KnownFiles::new();
        let seen = |files: &KnownFiles| (files.is_candidate(&here), files.is_candidate(&absent), files.is_dir(&dir));
        assert_eq!(seen(&files), (true, false, true));
        assert!(files.canonical(&here).is_some() && files.canonical(&absent).is_none());
        assert!(files.links(&here).is_err());
        std::fs::rename(&here, &absent).unwrap();
        assert_eq!(seen(&files.clone()), (true, false, true));
        assert_eq!(seen(&KnownFiles::new()), (false, true, true));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
