//! Writes the records of this process to a separate file. A forked child starts a second file with its first record, so
//! that the records of two processes never mix.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::append_file::{AppendFile, uninterrupted};
use cudnn_os::trusted_files::Directory;
use cudnn_store::captures::{FORMAT, Record, START, StartRecord, values_dir};

use crate::leaked::Leaked;
use crate::lock::Lock;
use crate::report::{FileKind, own_name};

pub(super) const KIND: FileKind = FileKind { name: "capture", start: START };
/// Readers refuse larger captures.
const MAX_RECORDS: usize = (1 << 20) - 1;

pub(super) struct Output {
    /// The name from the user.
    name: PathBuf,
    host: Host,
    start: Record,
}

/// The file of one process, which is never freed because other threads may use it.
struct ProcessFile {
    file: AppendFile,
    records: AtomicUsize,
    has_ended: AtomicBool,
    is_torn: AtomicBool,
    /// Whether an error about values of tensors was reported.
    has_lost_values: AtomicBool,
}

/// Empty in a forked child without records.
static FILE: Leaked<ProcessFile> = Leaked::new();
pub(super) static CREATING: Lock<()> = Lock::new(());
/// Whether this process has no file because of an error.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

impl Output {
    pub(super) fn create(name: PathBuf, host: Host) -> std::result::Result<Self, String> {
        let cudart = host.cudart_version().unwrap_or(0) as usize;
        let start = Record::Start(StartRecord { format: FORMAT, cudnn: host.cudnn_version() as usize, cudart });
        let output = Output { name, host, start };
        let name = own_name(&output.name, false);
        let file = output.new_file(&name).map_err(|error| format!("cannot write {}: {error}", name.display()))?;
        FILE.set(file);
        Ok(output)
    }

    /// Appends a record, and returns whether this succeeded. Nothing is written after an error.
    pub(super) fn write(&self, record: &Record) -> bool {
        let Some(file) = self.file().filter(|file| !file.has_ended.load(Ordering::Relaxed)) else { return false };
        let written = if file.records.fetch_add(1, Ordering::Relaxed) < MAX_RECORDS {
            let line = record.to_line();
            uninterrupted(|| file.file.append(line.as_bytes(), &file.is_torn))
        } else {
            Err(Error::other(format!("the limit of {MAX_RECORDS} records is reached")))
        };
        if let Err(error) = &written
            && !file.has_ended.swap(true, Ordering::Relaxed)
        {
            self.report(file.file.path(), error);
        }
        written.is_ok()
    }

    pub(super) fn write_data(&self, name: &str, values: &[u8]) -> bool {
        let Some(file) = self.file().filter(|file| !file.has_ended.load(Ordering::Relaxed)) else { return false };
        let dir = values_dir(file.file.path());
        let path = dir.join(name);
        let written = uninterrupted(|| {
            // Another user may have created a directory or link with this name.
            let dir = Directory::create_private(&dir).map_err(|refusal| Error::other(refusal.to_string()))?;
            dir.create_file(name)?.write(values).inspect_err(|_| _ = dir.remove_file(name))
        });
        if let Err(error) = &written
            && !file.has_lost_values.swap(true, Ordering::Relaxed)
        {
            self.report(&path, error);
        }
        written.is_ok()
    }

    /// Returns the file of this process. A forked child creates it.
    fn file(&self) -> Option<&'static ProcessFile> {
        if let Some(file) = FILE.get() {
            return Some(file);
        }
        let guard = CREATING.lock()?;
        if FILE.get().is_some() || HAS_FAILED.load(Ordering::Relaxed) {
            return FILE.get();
        }
        let name = own_name(&self.name, true);
        match self.new_file(&name) {
            Ok(file) => FILE.set(file),
            Err(error) => {
                HAS_FAILED.store(true, Ordering::Relaxed);
                // The report may call the program.
                drop(guard);
                self.report(&name, &error);
            }
        }
        FILE.get()
    }

    /// Creates a file with the first record.
    fn new_file(&self, name: &Path) -> Result<&'static ProcessFile> {
        let file = KIND.create(name, self.start.to_line().as_bytes())?;
        remove_data(file.path());
        let new = || AtomicBool::new(false);
        let (records, has_ended, is_torn, has_lost_values) = (AtomicUsize::new(1), new(), new(), new());
        Ok(Box::leak(Box::new(ProcessFile { file, records, has_ended, is_torn, has_lost_values })))
    }

    fn report(&self, name: &Path, error: &Error) {
        self.host.error(&format!("cannot write {}; the program continues: {error}", name.display()));
    }
}

pub(super) fn data_file(plan: usize, execution: u64, uid: i64, is_after: bool) -> String {
    let moment = if is_after { "after" } else { "before" };
    format!("plan-{plan}-execution-{execution}-tensor-{uid}-{moment}.bin")
}

/// Removes the values of an older capture with this name, but no other files.
fn remove_data(capture: &Path) {
    let path = values_dir(capture);
    let Ok(dir) = Directory::open_private(&path) else { return };
    let is_data = |name: &&String| name.starts_with("plan-") && name.contains("-tensor-") && name.ends_with(".bin");
    for name in dir.names().unwrap_or_default().iter().filter(is_data) {
        let _ = dir.remove_file(name);
    }
    // This fails if other files are left.
    let _ = std::fs::remove_dir(path);
}

pub(super) fn in_child() {
    HAS_FAILED.store(false, Ordering::Relaxed);
    if let Some(parents) = FILE.take() {
        parents.file.close();
    }
}
