//! A store: a directory and packs.

use std::path::{Path, PathBuf};

use crate::directory::{Cleared, Directory};
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_os::trusted_files;

use crate::entry::{Entry, Lookup, Source, Stored};
use crate::limit::Scan;
use crate::name;
use crate::pack::Pack;
use crate::problem::{Cause, Problem, ProblemKind};
use crate::settings::Settings;

/// A store of plans. It may be shared between threads, and used in children of `fork`.
pub struct Store {
    directory: Option<Directory>,
    packs: Vec<Pack>,
}

impl Store {
    /// Opens a store. What cannot be used is a problem, and is left out. A directory that does not exist is none: the
    /// first [`put`](Store::put) creates it.
    pub fn open(settings: &Settings) -> (Self, Vec<Problem>) {
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
                Err(Cause::from(ProblemKind::NotAbsolute).at(path))
            };
            match opened {
                Ok(()) => store.directory = Some(directory),
                Err(problem) => problems.push(problem),
            }
        }
        (store, problems)
    }

    /// The directory, if one is used.
    pub fn dir(&self) -> Option<&Path> {
        self.directory.as_ref().map(|directory| directory.path.as_path())
    }

    /// The packs that are used.
    pub fn packs(&self) -> impl Iterator<Item = &Path> {
        self.packs.iter().map(Pack::path)
    }

    /// Looks a key up: in the packs, then in the directory.
    ///
    /// An entry that is damaged, torn, of another key or of another user is [`Unusable`](Lookup::Unusable), and its
    /// file in the directory is removed.
    pub fn get(&self, key: &[u8]) -> Lookup {
        let _guard = ThreadStateGuard::new();
        let mut problem = None;
        for pack in &self.packs {
            match pack.get(key) {
                Ok(Some(entry)) => return Lookup::Found(entry, Source::Pack(pack.path().to_owned())),
                Ok(None) => {}
                Err(found) => problem = Some(found),
            }
        }
        match self.directory.as_ref().map(|directory| directory.get(key)) {
            Some(Ok(Some(entry))) => return Lookup::Found(entry, Source::Directory),
            Some(Ok(None)) | None => {}
            Some(Err(found)) => problem = Some(found),
        }
        problem.map_or(Lookup::Missing, Lookup::Unusable)
    }

    /// Keeps an entry in the directory, in place of one with its key. Without a directory it does nothing.
    ///
    /// From time to time a thread then removes the entries that were used longest ago, down to 90 % of the limit.
    ///
    /// # Errors
    /// Why the entry could not be kept. The directory is as before, and has no part of it.
    pub fn put(&self, entry: &Entry) -> Result<(), Problem> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(()), |directory| directory.put(entry))
    }

    /// Removes the entry with this key from the directory.
    pub fn remove(&self, key: &[u8]) {
        let _guard = ThreadStateGuard::new();
        if let Some(directory) = &self.directory {
            directory.remove(key);
        }
    }

    /// All entries, each read and checked when it is asked for: those of the packs, then those of the directory. What
    /// is damaged is a problem, and stays.
    pub fn entries(&self) -> Entries<'_> {
        Entries { store: self, packs: self.packs.iter(), pack: None, names: None }
    }

    /// Removes old temporary files, and entries if the directory is over its limit, as a thread does after some puts.
    ///
    /// # Errors
    /// Why the directory could not be read.
    pub fn scan(&self) -> Result<Scan, Problem> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(Scan::default()), Directory::scan)
    }

    /// Keeps a list of pages beside the plans, in place of one with its name, `pages-<16 hexadecimal digits>.list`.
    /// Returns its file; `None` without a directory.
    ///
    /// # Errors
    /// Why it could not be kept.
    pub fn put_pages(&self, name: &str, content: &[u8]) -> Result<Option<PathBuf>, Problem> {
        let _guard = ThreadStateGuard::new();
        let Some(directory) = &self.directory else { return Ok(None) };
        directory.put_pages(name, content)?;
        Ok(Some(directory.path.join(name)))
    }

    /// Removes all entries, lists of pages and temporary files from the directory, and nothing else.
    ///
    /// # Errors
    /// [`ProblemKind::NotAStore`] if no store has made the directory. Nothing is removed then.
    pub fn clear(&self) -> Result<Cleared, Problem> {
        let _guard = ThreadStateGuard::new();
        self.directory.as_ref().map_or(Ok(Cleared::default()), Directory::clear)
    }
}

/// Writes a list of pages to a file of its own, completely or not at all, in place of a regular file and nothing else.
///
/// # Errors
/// Why it could not be written. A file with this name is as before.
pub fn write_pages(path: &Path, content: &[u8]) -> Result<(), Problem> {
    let _guard = ThreadStateGuard::new();
    trusted_files::replace(path, &name::beside(path), std::iter::once(content))
        .map_err(|refusal| Cause::from(refusal).at_output(path))
}

/// The entries of a store.
pub struct Entries<'a> {
    store: &'a Store,
    packs: std::slice::Iter<'a, Pack>,
    pack: Option<(&'a Pack, u64)>,
    names: Option<std::vec::IntoIter<String>>,
}

impl Iterator for Entries<'_> {
    type Item = Result<Stored, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        let _guard = ThreadStateGuard::new();
        loop {
            if let Some((pack, place)) = self.pack.take() {
                match pack.entry(place) {
                    Ok(None) => continue,
                    Ok(Some(entry)) => {
                        self.pack = Some((pack, place + 1));
                        return Some(entry);
                    }
                    // The rest of this pack cannot be read either.
                    Err(problem) => return Some(Err(problem)),
                }
            }
            if let Some(pack) = self.packs.next() {
                self.pack = Some((pack, 0));
                continue;
            }
            let directory = self.store.directory.as_ref()?;
            let names = match &mut self.names {
                Some(names) => names,
                None => match directory.names() {
                    Ok(names) => self.names.insert(names.into_iter()),
                    Err(problem) => {
                        self.names = Some(Vec::new().into_iter());
                        return Some(Err(problem));
                    }
                },
            };
            match directory.entry(&names.next()?) {
                Ok(None) => {}
                Ok(Some(stored)) => return Some(Ok(stored)),
                Err(problem) => return Some(Err(problem)),
            }
        }
    }
}
