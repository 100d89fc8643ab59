//! Writes the trace file: a JSON array that grows record by record and is closed at a clean exit. Perfetto and Chrome
//! also read files without the closing bracket.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cudnn_os::append_file::{AppendFile, uninterrupted};

use super::record::JsonRecord;
use crate::report::FileKind;

/// The first bytes of a trace. The category distinguishes it from traces of other programs.
pub(super) const START: &str = "[\n{\"name\":\"process_name\",\"cat\":\"cudnn\"";
const END: &[u8] = b"\n]\n";
/// Room for the record that says why the trace ends.
const LAST_RECORD: usize = 400;
/// The time that the exiting process waits for threads that are writing a record.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) const KIND: FileKind = FileKind { name: "trace", start: START };

/// The trace file of this process, shared by all threads without locks.
pub(super) struct TraceFile {
    file: AppendFile,
    limit: u64,
    /// The size of the file with the last record and the closing bracket, including records that exceeded the limit.
    size: AtomicU64,
    /// The number of threads that are writing a record.
    writers: AtomicU32,
    has_ended: AtomicBool,
    /// Whether the last record is incomplete.
    is_torn: AtomicBool,
}

impl TraceFile {
    /// Creates the file with the first record, which must begin with [`START`].
    pub(super) fn create(name: &Path, limit: u64, first: &[u8]) -> Result<Self> {
        let file = KIND.create(name, first)?;
        let size = AtomicU64::new((first.len() + LAST_RECORD + END.len()) as u64);
        let (writers, has_ended, is_torn) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Ok(TraceFile { file, limit, size, writers, has_ended, is_torn })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Appends a record. A failure ends the file with the record `last`, and only one thread receives the error.
    pub(super) fn append(&self, record: &[u8], last: impl FnOnce(&Error) -> JsonRecord) -> Result<()> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Ok(());
        }
        uninterrupted(|| {
            // Sequentially consistent with `finish`, which either sees this writer or is seen by it.
            self.writers.fetch_add(1, Ordering::SeqCst);
            let written = if self.has_ended.load(Ordering::SeqCst) { Ok(()) } else { self.write(record) };
            let ended = written.or_else(|error| self.end(error, last));
            self.writers.fetch_sub(1, Ordering::SeqCst);
            ended
        })
    }

    /// Ends the file with a last record. Returns the error to the first thread that calls this.
    #[cold]
    fn end(&self, error: Error, last: impl FnOnce(&Error) -> JsonRecord) -> Result<()> {
        if self.has_ended.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        if !self.is_torn.load(Ordering::SeqCst) {
            let _ = self.file.append(last(&error).bytes(), &self.is_torn);
        }
        Err(error)
    }

    fn write(&self, record: &[u8]) -> Result<()> {
        let length = record.len() as u64;
        if self.size.fetch_add(length, Ordering::Relaxed).saturating_add(length) > self.limit {
            return Err(Error::other(format!("the limit of {} bytes is reached (CUDNN_TRACE_LIMIT)", self.limit)));
        }
        self.file.append(record, &self.is_torn)
    }

    pub(super) fn finish(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let start = Instant::now();
        while self.writers.load(Ordering::SeqCst) > 0 {
            if start.elapsed() > EXIT_TIMEOUT {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        if !self.is_torn.load(Ordering::SeqCst) {
            let _ = uninterrupted(|| self.file.append(END, &self.is_torn));
        }
    }

    pub(super) fn leave_to_parent(&self) {
        self.file.close();
    }
}
