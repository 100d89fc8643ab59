//! Every installation that a search comes upon, and those that people name: each once, with every way in which it was
//! found.

use std::path::{Path, PathBuf};

use crate::{Candidate, Host, InstallationReport, Origin, Search};

/// An installation, and how it was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Installed {
    /// What files tell of it.
    pub report: InstallationReport,
    /// Every way in which it was found, each with the folder as it was named there.
    pub found_via: Vec<Candidate>,
}

/// What is installed: below the roots of the environments that are named, and wherever the search looks.
#[must_use]
pub fn inventory(search: &Search, environment: &Host, roots: &[PathBuf]) -> Vec<Installed> {
    let mut found: Vec<(Key, Installed)> = Vec::new();
    let named = roots.iter().flat_map(|root| search.under_root(root));
    // A folder that was named ends the search for one to use, but not that for all that there are.
    for candidate in search.explicit_candidate().into_iter().chain(search.default_candidates()).chain(named) {
        let Some(key) = Key::new(&candidate.dir) else { continue };
        if let Some((_, installed)) = found.iter_mut().find(|(other, _)| *other == key) {
            if !installed.found_via.contains(&candidate) {
                installed.found_via.push(candidate);
            }
        } else if let Some(report) = InstallationReport::read(&candidate.dir, environment) {
            found.push((key, Installed { report, found_via: vec![candidate] }));
        }
    }
    found.into_iter().map(|(_, installed)| installed).collect()
}

/// What makes a folder the same, whatever it is called: links, bind mounts and spellings.
#[derive(PartialEq, Eq)]
enum Key {
    #[cfg(unix)]
    Inode(u64, u64),
    #[cfg(not(unix))]
    Path(PathBuf),
}

impl Key {
    fn new(folder: &Path) -> Option<Key> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let metadata = std::fs::metadata(folder).ok()?;
            Some(Key::Inode(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        std::fs::canonicalize(folder).ok().map(Key::Path)
    }
}

impl Installed {
    /// The first way in which it was found.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.found_via.first().map(|way| &way.origin)
    }
}
