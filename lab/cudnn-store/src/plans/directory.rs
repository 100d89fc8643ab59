//! The directory of a store, with one file per entry.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use cudnn_os::trusted_files;

use super::entry::{PlanEntry, PlanSource, StoredPlan};
use super::error::Cause;
use super::format::{self, MAX_ENTRY};
use super::limit;
use super::name::{self, StoreFile};
use super::variables::LIMIT_VARIABLE;

/// The number of files that [`Store::clear`](crate::plans::Store::clear) has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleared {
    /// Entries.
    pub entries: u64,
    /// Temporary files.
    pub temporaries: u64,
}

/// The location of a directory and the state of this process. Operations reopen the directory.
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) limit: u64,
    /// Number of bytes that this process has written since the last scan.
    written: AtomicU64,
    was_scanned: AtomicBool,
    /// The directory has a tag, or contains unrelated files and stays untagged.
    was_tagged: AtomicBool,
}

impl Directory {
    pub(crate) fn new(path: PathBuf, limit: u64) -> Self {
        Directory {
            path,
            limit,
            written: AtomicU64::new(0),
            was_scanned: AtomicBool::new(false),
            was_tagged: AtomicBool::new(false),
        }
    }

    /// Opens the directory if it exists.
    pub(crate) fn open(&self) -> Result<Option<trusted_files::Directory>, String> {
        match trusted_files::Directory::open(&self.path).map_err(Cause::from) {
            Ok(directory) => Ok(Some(directory)),
            Err(cause) if cause.is_missing() => Ok(None),
            Err(cause) => Err(cause.at(&self.path)),
        }
    }

    /// Returns the entry with this key. Removes useless files.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<PlanEntry>, String> {
        let Some(directory) = self.open()? else { return Ok(None) };
        let name = name::entry_name(&name::hash(key));
        let cause = match read(&directory, &name) {
            Ok((stored, _)) if stored.entry.key != key => Cause::other_key(),
            Ok((stored, file)) => {
                let now = SystemTime::now();
                if stored.last_use.is_none_or(|time| limit::is_use_to_record(time, now)) {
                    // This fails on read-only file systems.
                    let _ = file.set_modified(now);
                }
                return Ok(Some(stored.entry));
            }
            Err(cause) if cause.is_missing() => return Ok(None),
            Err(cause) => cause,
        };
        if cause.is_useless() {
            let _ = directory.remove(&name);
        }
        Err(cause.at_entry(&self.path.join(name)))
    }

    /// Writes the entry to a temporary file and renames it, so that readers never see a partial entry.
    pub(crate) fn put(&self, entry: &PlanEntry) -> Result<(), String> {
        let name = name::entry_name(&name::hash(&entry.key));
        let bytes = format::encode(entry);
        let size = bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64);
        let limit = self.limit.min(MAX_ENTRY);
        let Some(bytes) = bytes.filter(|_| size <= limit) else {
            let file = self.path.join(name);
            let too_large = format!("would have {size} bytes, but the limit is {limit}");
            return Err(format!("{} {too_large}; raise {LIMIT_VARIABLE}", file.display()));
        };
        let written = self.create().and_then(|directory| write(&directory, &name, &bytes));
        written.map_err(|cause| cause.at(&self.path))?;

        let written = self.written.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        let is_first = !self.was_scanned.swap(true, Ordering::Relaxed);
        if (is_first || written > self.limit / 16) && limit::start_scan(&self.path, self.limit) {
            self.written.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn create(&self) -> Result<trusted_files::Directory, Cause> {
        let directory = trusted_files::Directory::create(&self.path)?;
        if !self.was_tagged.swap(true, Ordering::Relaxed) {
            // If the directory cannot be listed, the next put tries again.
            let only_plans = contains_only_plans(&directory);
            let tagged =
                if matches!(only_plans, Ok(true)) { write(&directory, name::TAG, name::TAG_CONTENT) } else { Ok(()) };
            self.was_tagged.store(only_plans.is_ok() && tagged.is_ok(), Ordering::Relaxed);
            tagged?;
        }
        Ok(directory)
    }

    /// Removes old entries and temporary files. A background thread does the same after some puts.
    pub(crate) fn scan(&self) -> Result<(), String> {
        let Some(directory) = self.open()? else { return Ok(()) };
        limit::scan(&directory, self.limit, SystemTime::now()).map_err(|cause| cause.at(&self.path))
    }

    /// Iterates over the entries, sorted by their file names.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<StoredPlan, String>> {
        std::iter::once_with(|| self.names()).flat_map(|names| {
            let (names, problem) = match names {
                Ok(names) => (names, None),
                Err(problem) => (Vec::new(), Some(Err(problem))),
            };
            problem.into_iter().chain(names.into_iter().filter_map(|name| self.entry(&name).transpose()))
        })
    }

    fn names(&self) -> Result<Vec<String>, String> {
        let Some(directory) = self.open()? else { return Ok(Vec::new()) };
        let mut names = directory.names().map_err(|error| Cause::from(error).at(&self.path))?;
        names.retain(|name| name::kind(name) == Some(StoreFile::Entry));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the entry with this name, or `None` if it was removed. Keeps damaged entries.
    fn entry(&self, name: &str) -> Result<Option<StoredPlan>, String> {
        let Some(directory) = self.open()? else { return Ok(None) };
        match read(&directory, name) {
            Ok((stored, _)) if name::entry_name(&name::hash(&stored.entry.key)) == name => Ok(Some(stored)),
            Ok(_) => Err(Cause::other_key().at_entry(&self.path.join(name))),
            Err(cause) if cause.is_missing() => Ok(None),
            Err(cause) => Err(cause.at_entry(&self.path.join(name))),
        }
    }

    /// Removes all entries and temporary files, if a store has created the directory.
    pub(crate) fn clear(&self) -> Result<Cleared, String> {
        let mut cleared = Cleared::default();
        let Some(directory) = self.open()? else { return Ok(cleared) };
        if !is_tagged(&directory) {
            return Err(format!(
                "{} is not tagged as a plan store; no files were removed; choose a directory that was created by a plan store",
                self.path.display()
            ));
        }
        let mut failure = None;
        for name in directory.names().map_err(|error| Cause::from(error).at(&self.path))? {
            let Some(kind) = name::kind(&name) else { continue };
            match directory.remove(&name) {
                Ok(()) => match kind {
                    StoreFile::Entry => cleared.entries += 1,
                    StoreFile::Temporary => cleared.temporaries += 1,
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => failure = Some(Cause::from(error).at(&self.path.join(name))),
            }
        }
        failure.map_or(Ok(cleared), Err)
    }
}

fn read(directory: &trusted_files::Directory, name: &str) -> Result<(StoredPlan, trusted_files::File), Cause> {
    let file = directory.open_file(name)?;
    let stat = file.stat()?;
    if stat.size > MAX_ENTRY {
        return Err(Cause::too_large(stat.size, MAX_ENTRY));
    }
    let bytes = file.read(0, stat.size)?.ok_or_else(Cause::wrong_size)?;
    let stored = StoredPlan {
        entry: format::decode(&bytes)?,
        source: PlanSource::Directory,
        name: name.to_owned(),
        bytes: stat.size,
        last_use: stat.modified,
    };
    Ok((stored, file))
}

fn is_tagged(directory: &trusted_files::Directory) -> bool {
    let Some(signature) = name::TAG_CONTENT.split_inclusive(|byte| *byte == b'\n').next() else { return false };
    let start = directory.open_file(name::TAG).and_then(|file| Ok(file.read(0, signature.len() as u64)?));
    start.is_ok_and(|start| start.as_deref() == Some(signature))
}

/// Returns whether the directory contains only files of stores. Backup programs skip tagged directories, so a directory
/// with unrelated data must stay untagged.
fn contains_only_plans(directory: &trusted_files::Directory) -> Result<bool, Cause> {
    Ok(directory.names()?.iter().all(|name| name::kind(name).is_some()))
}

/// Creates a file with this content, or no file on failure.
fn write(directory: &trusted_files::Directory, name: &str, content: &[u8]) -> Result<(), Cause> {
    match directory.replace(name, content) {
        // Something other than a regular file has this name.
        Err(error) if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::AlreadyExists) => {
            directory.remove(name)?;
            Ok(directory.replace(name, content)?)
        }
        written => Ok(written?),
    }
}
