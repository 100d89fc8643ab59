//! A file of records.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::lock_within;
pub use crate::unsupported::uninterrupted;

/// Others may read the file, and neither write to it nor delete it.
const FILE_SHARE_READ: u32 = 1;

/// How long a thread waits for its turn.
const LIMIT: Duration = Duration::from_secs(1);

/// An open file.
pub struct AppendFile {
    file: File,
    /// Wine looks for the end of a file and then writes there, so threads must take turns.
    turn: Mutex<()>,
    /// A thread that was ended may have kept its turn: nobody waits any more.
    is_turn_lost: AtomicBool,
    path: PathBuf,
}

impl AppendFile {
    /// Creates a file that does not exist yet, at an absolute path.
    ///
    /// # Errors
    /// The system's.
    pub fn create_new(path: &Path) -> Result<Option<Self>> {
        let file = OpenOptions::new().append(true).create_new(true).share_mode(FILE_SHARE_READ).open(path)?;
        let is_turn_lost = AtomicBool::new(false);
        Ok(Some(AppendFile { file, turn: Mutex::new(()), is_turn_lost, path: path.to_owned() }))
    }

    /// Removes a file so that its name is free. `false` if a process is writing to it.
    ///
    /// # Errors
    /// The system's, or that the file is of another kind or has other content.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the record with one write (FILE_APPEND_DATA), of which nothing is written if it fails.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, record: &[u8], _: &AtomicBool) -> Result<()> {
        // Without its turn the record is written all the same.
        let limit = if self.is_turn_lost.load(Ordering::Relaxed) { Duration::ZERO } else { LIMIT };
        let turn = lock_within(&self.turn, limit);
        if turn.is_none() {
            self.is_turn_lost.store(true, Ordering::Relaxed);
        }
        (&self.file).write_all(record)
    }

    /// There is no fork.
    pub fn close(&self) {}
}
