//! Appends records to a file on Windows.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::lock_within;

/// Other processes may read the file, but not write to or delete it.
const FILE_SHARE_READ: u32 = 1;

const LIMIT: Duration = Duration::from_secs(1);

pub struct AppendFile {
    file: File,
    /// Serializes writes, because Wine determines the end of the file before it writes there.
    turn: Mutex<()>,
    /// Set if a thread was terminated while it held the lock. Other threads then stop waiting.
    is_turn_lost: AtomicBool,
    path: PathBuf,
}

impl AppendFile {
    pub fn create_new(path: &Path) -> Result<Option<Self>> {
        let file = OpenOptions::new().append(true).create_new(true).share_mode(FILE_SHARE_READ).open(path)?;
        let is_turn_lost = AtomicBool::new(false);
        Ok(Some(AppendFile { file, turn: Mutex::new(()), is_turn_lost, path: path.to_owned() }))
    }

    pub fn remove(path: &Path, may_be_removed: impl FnOnce(&[u8]) -> bool) -> Result<bool> {
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => return Err(Error::other("it is not a regular file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            _ => {}
        }
        let mut start = Vec::new();
        File::open(path)?.take(64).read_to_end(&mut start)?;
        if !may_be_removed(&start) {
            return Err(Error::from(ErrorKind::AlreadyExists));
        }
        Ok(std::fs::remove_file(path).is_ok())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn append(&self, record: &[u8], _: &AtomicBool) -> Result<()> {
        // Write the record even without the lock.
        let limit = if self.is_turn_lost.load(Ordering::Relaxed) { Duration::ZERO } else { LIMIT };
        let turn = lock_within(&self.turn, limit);
        if turn.is_none() {
            self.is_turn_lost.store(true, Ordering::Relaxed);
        }
        (&self.file).write_all(record)
    }

    pub fn close(&self) {}
}

pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    work()
}
