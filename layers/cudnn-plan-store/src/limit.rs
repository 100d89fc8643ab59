//! Keeps a store's directory within its limit: the entries that were used longest ago are removed first.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use cudnn_os::descriptors::leave_all;
use cudnn_os::threads;
use cudnn_os::trusted_files::Directory;

use crate::name::{self, Kind};
use crate::problem::Cause;

/// How exactly an entry's last use is known, and how old a temporary file becomes.
const HOUR: Duration = Duration::from_secs(3600);

/// A time this far ahead is a difference between two clocks.
const SLACK: Duration = Duration::from_secs(60);

/// What a scan of the directory has found and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scan {
    /// The entries that are left.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The entries that were removed.
    pub removed_entries: u64,
    /// The temporary files of processes that were killed, which were removed.
    pub removed_temporaries: u64,
}

/// Whether an entry with this last use, which is used now, gets a new one. A time ahead of the clock is no last use.
pub(crate) fn is_use_to_record(last_use: SystemTime, now: SystemTime) -> bool {
    match now.duration_since(last_use) {
        Ok(age) => age >= HOUR,
        Err(ahead) => ahead.duration() > SLACK,
    }
}

/// The process that scans, or 0. A child of `fork` finds its parent's number, and its scan begins all the same.
static SCANNING: AtomicU32 = AtomicU32::new(0);

/// Scans the directory in a thread. Returns whether one was started: a process has one at a time.
pub(crate) fn start_scan(path: &Path, limit: u64) -> bool {
    let process = std::process::id();
    let other = SCANNING.load(Ordering::Relaxed);
    if other == process || SCANNING.compare_exchange(other, process, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false;
    }
    let path = path.to_owned();
    let work = move || {
        // A program that closes all of its descriptors meanwhile closes none of this thread's, and this thread closes none
        // that the program then opens under their numbers.
        leave_all();
        if let Ok(directory) = Directory::open(&path) {
            let _ = scan(&directory, limit, SystemTime::now());
        }
        SCANNING.store(0, Ordering::Relaxed);
    };
    let is_started = threads::start("cudnn-plans", Box::new(work)).is_ok();
    if !is_started {
        SCANNING.store(0, Ordering::Relaxed);
    }
    is_started
}

/// Removes old temporary files, and entries if the directory is over its limit.
pub(crate) fn scan(directory: &Directory, limit: u64, now: SystemTime) -> Result<Scan, Cause> {
    let mut scan = Scan::default();
    let mut entries = Vec::new();
    for name in directory.names()? {
        let Some(kind) = name::kind(&name) else { continue };
        let Ok(facts) = directory.facts(&name) else { continue };
        let modified = facts.modified.unwrap_or(now);
        // The clock was set back, or was wrong: from now on the file is as old as one of now, and so grows old.
        if modified.duration_since(now).is_ok_and(|ahead| ahead > SLACK) {
            directory.set_modified(&name, now);
        }
        match kind {
            Kind::Temporary if now.duration_since(modified).is_ok_and(|age| age >= HOUR) => {
                scan.removed_temporaries += u64::from(directory.remove(&name).is_ok());
            }
            // A list of pages is small, and there is one for each installation.
            Kind::Temporary | Kind::Pages => {}
            Kind::Entry => {
                scan.entries += 1;
                scan.bytes = scan.bytes.saturating_add(facts.size);
                entries.push((modified, name, facts.size));
            }
        }
    }
    if scan.bytes <= limit {
        return Ok(scan);
    }
    let goal = limit - limit / 10;
    entries.sort_unstable();
    for (_, name, size) in entries {
        if scan.bytes <= goal {
            break;
        }
        // Another process may have removed it.
        if directory.remove(&name).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            continue;
        }
        scan.bytes = scan.bytes.saturating_sub(size);
        scan.entries -= 1;
        scan.removed_entries += 1;
    }
    Ok(scan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_scans_once_at_a_time_whatever_its_parent_does() {
        let process = std::process::id();
        let start = || start_scan("/no/such/dir".as_ref(), 1);
        SCANNING.store(process, Ordering::Relaxed);
        assert!(!start());
        // As a child finds it that was forked during a scan.
        SCANNING.store(process.wrapping_add(1), Ordering::Relaxed);
        assert!(start());
        let begin = std::time::Instant::now();
        while SCANNING.load(Ordering::Relaxed) != 0 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert_eq!(SCANNING.load(Ordering::Relaxed), 0);
    }
}
