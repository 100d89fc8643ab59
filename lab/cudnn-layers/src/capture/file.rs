//! Writes the records of this process to a file of its own.
//!
//! A forked child starts a second file when it writes its first record, so that the records of two processes never mix.

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

/// Creates the files of this process and its forked children.
pub(super) struct Output {
    /// The name as the user has chosen it.
    name: PathBuf,
    host: Host,
    start: Record,
}

/// The file of one process. Never freed, because other threads may be using it.
struct ProcessFile {
    file: AppendFile,
    records: AtomicUsize,
    has_ended: AtomicBool,
    is_torn: AtomicBool,
    /// An error about values of tensors was reported.
    has_lost_values: AtomicBool,
}

/// Empty in a forked child that has not written a record yet.
static FILE: Leaked<ProcessFile> = Leaked::new();
/// Held while a forked child creates its file.
pub(super) static CREATING: Lock<()> = Lock::new(());
/// This process has no file because of an error.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

impl Output {
    /// Creates the file of the first process.
    pub(super) fn create(name: PathBuf, host: Host) -> std::result::Result<Self, String> {
        let cudart = host.cudart_version().unwrap_or(0) as usize;
        let start = Record::Start(StartRecord { format: FORMAT, cudnn: host.cudnn_version() as usize, cudart });
        let output = Output { name, host, start };
        let name = own_name(&output.name, false);
        let file = output.new_file(&name).map_err(|error| format!("cannot write {}: {error}", name.display()))?;
        FILE.set(file);
        Ok(output)
    }

    /// Appends a record, and returns whether this has succeeded. After an error, the file ends.
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

    /// Writes the values of a tensor to a file in the directory of values.
    pub(super) fn write_data(&self, name: &str, values: &[u8]) -> bool {
        let Some(file) = self.file().filter(|file| !file.has_ended.load(Ordering::Relaxed)) else { return false };
        let dir = values_dir(file.file.path());
        let path = dir.join(name);
        let written = uninterrupted(|| {
            // Another user may have made a directory or a link with this name.
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

    /// Returns the file of this process, which a forked child creates.
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
                // The program may receive the report.
                drop(guard);
                self.report(&name, &error);
            }
        }
        FILE.get()
    }

    /// Creates a file with the first record, like [`FileKind::create`].
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

/// Returns the name of the file with the values of a tensor.
pub(super) fn data_file(plan: usize, execution: u64, uid: i64, is_after: bool) -> String {
    let moment = if is_after { "after" } else { "before" };
    format!("plan-{plan}-execution-{execution}-tensor-{uid}-{moment}.bin")
}

/// Removes the values that belonged to an older capture with this name, but no other files.
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

/// Leaves the file of the parent in a forked child.
pub(super) fn in_child() {
    HAS_FAILED.store(false, Ordering::Relaxed);
    if let Some(parents) = FILE.take() {
        parents.file.close();
    }
}
