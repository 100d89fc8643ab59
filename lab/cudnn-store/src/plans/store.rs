//! A store that consists of a directory and packs.

use std::path::Path;

use super::directory::{Cleared, Directory};
use cudnn_os::cancel::ThreadStateGuard;

use super::entry::{PlanEntry, PlanLookup, PlanSource, StoredPlan};
use super::error::Cause;
use super::pack::Pack;
use super::settings::Settings;

/// A store of plans. It can be shared between threads and used in forked children.
pub struct Store {
    directory: Option<Directory>,
    packs: Vec<Pack>,
}

impl Store {
    /// Opens a store without the parts that cannot be used, which are returned as problems. The first
    /// [`put`](Store::put) creates a missing directory.
    pub fn open(settings: &Settings) -> (Self, Vec<String>) {
        let _guard = ThreadStateGuard::new();
        let mut problems = Vec::new();
        let mut store = Store { directory: None, packs: Vec::new() };
        for path in &settings.packs {
            match Pack::open(path) {
                Ok(pack) => store.packs.push(pack),
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(path) = &settings.dir {
            let directory = Directory::new(path.clone(), settings.limit);
            let opened = if path.is_absolute() {
                directory.open().map(drop)
            } else {
                Err(Cause::new("is not an absolute path").at(path))
            };
            match opened {
                Ok(()) => store.directory = Some(directory),
                Err(problem) => problems.push(problem),
            }
        }
        (store, problems)
    }

    /// Returns the directory, if the store uses one.
    pub fn dir(&self) -> Option<&Path> {
        self.directory.as_ref().map(|directory| directory.path.as_path())
    }

    /// Returns the paths of the packs in use.
    pub fn packs(&self) -> impl Iterator<Item = &Path> {
        self.packs.iter().map(Pack::path)
    }

    /// Looks up a key, first in the packs and then in the directory.
    ///
    /// Damaged or incomplete entries, different keys, and files of other users are [`Unusable`](PlanLookup::Unusable),
    /// and the file is removed from the directory.
    pub fn get(&self, key: &[u8]) -> PlanLookup {
        let _guard = ThreadStateGuard::new();
        let mut problem = None;
        for pack in &self.packs {
            match pack.get(key) {
                Ok(Some(entry)) => return PlanLookup::Found(entry, PlanSource::Pack(pack.path().to_owned())),
                Ok(None) => {}
                Err(found) => problem = Some(found),
            }
        }
        match self.directory.as_ref().map(|directory| directory.get(key)) {
            Some(Ok(Some(entry))) => return PlanLookup::Found(entry, PlanSource::Directory),
            Some(Ok(None)) | None => {}
            Some(Err(found)) => problem = Some(found),
        }
        problem.map_or(PlanLookup::Missing, PlanLookup::Unusable)
    }

    /// Stores an entry in the directory and replaces an entry with the same key. Does nothing without a directory.
    ///
    /// If the directory exceeds the limit, a background thread occasionally removes the least recently used entries,
    /// down to 90 % of the limit.
    ///
    /// # Errors
    /// Returns the reason for a failure, after which the directory is unchanged.
    pub fn put(&self, entry: &PlanEntry) -> Result<(), String> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(()), |directory| directory.put(entry))
    }

    /// Reads and verifies all entries one at a time, first in the packs and then in the directory. Damaged entries are
    /// returned as problems and are not removed.
    pub fn entries(&self) -> impl Iterator<Item = Result<StoredPlan, String>> {
        let packed = self.packs.iter().flat_map(Pack::entries);
        let mut entries = packed.chain(self.directory.iter().flat_map(Directory::entries));
        std::iter::from_fn(move || {
            let _guard = ThreadStateGuard::new();
            entries.next()
        })
    }

    /// Removes old temporary files, and entries above the limit, as a background thread does after some puts.
    ///
    /// # Errors
    /// Returns the reason why the directory could not be read.
    pub fn scan(&self) -> Result<(), String> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(()), Directory::scan)
    }

    /// Removes all entries and temporary files from the directory, but no other files.
    ///
    /// # Errors
    /// Removes no files if the directory was not created by a store.
    pub fn clear(&self) -> Result<Cleared, String> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(Cleared::default()), Directory::clear)
    }
}
