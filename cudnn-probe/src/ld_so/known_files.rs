//! What several simulations know of the files that they meet: each library is read once, and each name that is not there
//! is asked for once. Whoever makes one decides how long the files count as unchanged: a survey of one environment keeps
//! it for its own time. Nothing outlives the value, and a search that gets none looks at the files themselves.

use crate::facts::{self, PathFacts};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ProbeError;
use crate::image::{Links, links};

use super::paths::{Files, OnDisk};

/// The most paths that are remembered. An environment with ten frameworks has some hundreds; hostile files ask for
/// millions, and are read again.
const MAX_PATHS: usize = 1 << 14;

/// The files that simulations have met, by the bytes of their paths: a hash of these is fast. For [`Simulation::with_files`](super::Simulation::with_files). A clone is the same
/// value.
#[derive(Clone, Debug, Default)]
pub struct KnownFiles(Arc<Mutex<HashMap<OsString, Known>>>);

/// What is known of a path.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Whether a file that ld.so would take is there.
    is_candidate: Option<bool>,
    is_dir: Option<bool>,
    /// What ld.so reads of it. A file that cannot be read is read again: the reason is for whoever asks.
    links: Option<Arc<Links>>,
    /// The path without symbolic links, if it leads to something.
    canonical: Option<Option<PathBuf>>,
}

impl KnownFiles {
    /// No file is known yet.
    #[must_use]
    pub fn new() -> Self {
        KnownFiles::default()
    }

    /// The path without symbolic links; `None` if it leads nowhere.
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

    /// What ld.so reads of a library or program.
    pub(super) fn links(&self, path: &Path) -> Result<Arc<Links>, ProbeError> {
        if let Some(links) = self.get(path, |known| known.links.clone()) {
            return Ok(links);
        }
        let links = Arc::new(links(path)?);
        self.add(path, Known { links: Some(links.clone()), ..Known::default() });
        Ok(links)
    }

    /// What is known of a path, or else what this finds out about it, outside of the lock.
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
            // Most names that ld.so tries do not exist: one look at the directory must do for them.
            let links = if file.target_exists() { links(file).map(Arc::new) } else { Err(ProbeError::NotFound) };
            let is_candidate = super::paths::is_taken(links.as_ref().map(Arc::as_ref));
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
    #[cfg_attr(miri, ignore = "Miri does not know O_NONBLOCK")]
    fn what_is_known_stays_for_the_life_of_the_value_and_no_longer() {
        let dir = std::env::temp_dir().join(format!("cudnn-probe-known-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        // ld.so stops at a damaged file, so any text does.
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
