//! Limits the size of a store's directory by removing the least recently used entries.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use cudnn_os::descriptors::leave_all;
use cudnn_os::threads;
use cudnn_os::trusted_files::Directory;

use super::error::Cause;
use super::name::{self, StoreFile};

/// The resolution of the last use, and the age at which temporary files are removed.
const HOUR: Duration = Duration::from_secs(3600);

/// Modification times further in the future are attributed to a clock change.
const SLACK: Duration = Duration::from_secs(60);

/// Returns whether to update the last use of an entry. A time in the future is always replaced.
pub(crate) fn is_use_to_record(last_use: SystemTime, now: SystemTime) -> bool {
    match now.duration_since(last_use) {
        Ok(age) => age >= HOUR,
        Err(ahead) => ahead.duration() > SLACK,
    }
}

/// The ID of the scanning process, or 0. A forked child can start a scan although it finds the parent's ID.
static SCANNING: AtomicU32 = AtomicU32::new(0);

/// Starts a thread that scans the directory. Returns `false` if this process is already scanning.
pub(crate) fn start_scan(path: &Path, limit: u64) -> bool {
    let process = std::process::id();
    let other = SCANNING.load(Ordering::Relaxed);
    if other == process || SCANNING.compare_exchange(other, process, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false;
    }
    let path = path.to_owned();
    let work = move || {
        // Use a separate descriptor table, because the program may close all descriptors and reuse their numbers.
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

/// Removes old temporary files, and entries if the directory is over the limit.
pub(crate) fn scan(directory: &Directory, limit: u64, now: SystemTime) -> Result<(), Cause> {
    let (mut entries, mut bytes) = (Vec::new(), 0_u64);
    for name in directory.names()? {
        let Some(kind) = name::kind(&name) else { continue };
        let Ok(stat) = directory.stat(&name) else { continue };
        let modified = stat.modified.unwrap_or(now);
        // The clock was wrong or was set back. Reset the time so that the file ages normally.
        if modified.duration_since(now).is_ok_and(|ahead| ahead > SLACK) {
            directory.set_modified(&name, now);
        }
        match kind {
            StoreFile::Temporary if now.duration_since(modified).is_ok_and(|age| age >= HOUR) => {
                let _ = directory.remove(&name);
            }
            StoreFile::Temporary => {}
            StoreFile::Entry => {
                bytes = bytes.saturating_add(stat.size);
                entries.push((modified, name, stat.size));
            }
        }
    }
    if bytes <= limit {
        return Ok(());
    }
    let goal = limit - limit / 10;
    entries.sort_unstable();
    for (_, name, size) in entries {
        if bytes <= goal {
            break;
        }
        // Another process may have removed the file.
        if directory.remove(&name).is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            continue;
        }
        bytes = bytes.saturating_sub(size);
    }
    Ok(())
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
        // A child that was forked during a scan of its parent finds this value.
        SCANNING.store(process.wrapping_add(1), Ordering::Relaxed);
        assert!(start());
        let begin = std::time::Instant::now();
        while SCANNING.load(Ordering::Relaxed) != 0 && begin.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert_eq!(SCANNING.load(Ordering::Relaxed), 0);
    }
}
