//! The file of the trace: a JSON array that is written record by record, and closed at a clean exit. Perfetto and
//! Chrome read a file without the closing bracket.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::append_file::{AppendFile, uninterrupted};

/// What a trace begins with. Only such files are replaced, and empty ones.
pub(super) const START: &str = "[\n{\"name\":\"process_name\"";
/// What closes the array.
const END: &[u8] = b"\n]\n";
/// How long the exit of the process waits for threads that are writing a record.
const PATIENCE: Duration = Duration::from_secs(5);
/// Attempts to get a name while other processes take it and give it up.
const ATTEMPTS: usize = 8;

/// The file of this process. Shared by all threads, without locks.
pub(super) struct TraceFile {
    file: AppendFile,
    limit: u64,
    /// The bytes of the file with its end, had all records found room.
    size: AtomicU64,
    /// The threads that are writing a record.
    writers: AtomicU32,
    /// No further record is written.
    has_ended: AtomicBool,
    /// The last record is incomplete.
    is_torn: AtomicBool,
}

impl TraceFile {
    /// Creates the file with its first record, which begins as [`START`] does. If another process is writing a trace to
    /// the file of this name, the file gets the other name.
    pub(super) fn create(name: &Path, other_name: &Path, limit: u64, first: &[u8]) -> Result<Self> {
        let file = match create_or_replace(&std::path::absolute(name)?)? {
            Some(file) => file,
            None => create_or_replace(&std::path::absolute(other_name)?)?.ok_or(ErrorKind::AlreadyExists)?,
        };
        let is_torn = AtomicBool::new(false);
        if let Err(error) = uninterrupted(|| file.append(first, &is_torn)) {
            let _ = std::fs::remove_file(file.path());
            file.close();
            return Err(error);
        }
        let size = AtomicU64::new((first.len() + END.len()) as u64);
        let (writers, has_ended) = (AtomicU32::new(0), AtomicBool::new(false));
        Ok(TraceFile { file, limit, size, writers, has_ended, is_torn })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Appends a record. An error is why the file ends here; only one thread gets it.
    pub(super) fn append(&self, record: &[u8]) -> Result<()> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        let written = uninterrupted(|| {
            // In one order with `finish`, which sees this writer or is seen by it.
            self.writers.fetch_add(1, Ordering::SeqCst);
            let written = if self.has_ended.load(Ordering::SeqCst) { Ok(()) } else { self.write(record) };
            self.writers.fetch_sub(1, Ordering::SeqCst);
            written
        });
        match written {
            Err(error) if !self.has_ended.swap(true, Ordering::SeqCst) => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, record: &[u8]) -> Result<()> {
        let length = record.len() as u64;
        if self.size.fetch_add(length, Ordering::Relaxed).saturating_add(length) > self.limit {
            return Err(Error::other(format!("it has reached its limit of {} bytes (CUDNN_TRACE_LIMIT)", self.limit)));
        }
        self.file.append(record, &self.is_torn)
    }

    /// Closes the array when the process exits.
    pub(super) fn finish(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let start = Instant::now();
        while self.writers.load(Ordering::SeqCst) > 0 {
            if start.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        if !self.is_torn.load(Ordering::SeqCst) {
            let _ = uninterrupted(|| self.file.append(END, &self.is_torn));
        }
    }

    /// Closes what a child process has inherited of its parent's file.
    pub(super) fn leave_to_parent(&self) {
        self.file.close();
    }
}

/// Creates the file in place of a trace that no process is writing to. `None` if a process is.
fn create_or_replace(path: &Path) -> Result<Option<AppendFile>> {
    let is_trace = |start: &[u8]| start.is_empty() || start.starts_with(START.as_bytes());
    for _ in 0..ATTEMPTS {
        match AppendFile::create_new(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let removed = AppendFile::remove(path, is_trace).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => Error::new(error.kind(), "it exists, and it is not a trace"),
                    _ => error,
                });
                if !removed? {
                    return Ok(None);
                }
            }
            Ok(None) => {}
            created => return created,
        }
    }
    Ok(None)
}
