//! The file of a trace where it cannot be written through a mapping: each record is one write, which replaces
//! the array's bracket by the record and the bracket. So the file is complete whenever the process ends, and a record costs a
//! system call.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Instant;

use super::append_error::{AppendError, PATIENCE};
use super::os::keep_for_this_process;
use crate::step::{Sink, Step};

/// An open file. Shared by all threads.
pub(crate) struct TraceFile {
    /// The file, and the offset of the bracket.
    file: Mutex<(File, u64)>,
    path: PathBuf,
}

impl TraceFile {
    /// Creates the file, with one record in it, which is `first`: an object. If the file cannot be replaced, because
    /// another process has it open, it gets the other name.
    pub(crate) fn create(name: &Path, other_name: &Path, first: &str) -> Result<Self> {
        let mut path = std::path::absolute(name)?;
        let mut created = create_new(&path);
        if created.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
            if is_other_data(&path) {
                return Err(Error::other("it exists, and is not a file that can be replaced"));
            }
            if std::fs::remove_file(&path).is_err() {
                path = std::path::absolute(other_name)?;
                let _ = std::fs::remove_file(&path);
            }
            created = create_new(&path);
        }
        let mut file = created?;
        let head = format!("[\n{first}\n");
        file.write_all(format!("{head}]").as_bytes())?;
        Ok(TraceFile { file: Mutex::new((file, head.len() as u64)), path })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing is prepared here.
    pub(crate) fn start_helper(&'static self) {}

    /// There is no fork here.
    pub(crate) fn leave_to_parent(&self) {}

    /// Lets `write` write a record of at most this many bytes.
    pub(crate) fn append(
        &self,
        room: usize,
        write: impl FnOnce(Writer) -> Writer,
    ) -> std::result::Result<(), AppendError> {
        let Writer { mut text, .. } = write(Writer { text: Vec::with_capacity(room + 1), room });
        let bytes = text.len() as u64;
        text.push(b']');
        let start = Instant::now();
        let mut locked = loop {
            match self.file.try_lock() {
                Ok(locked) => break locked,
                Err(TryLockError::Poisoned(poisoned)) => break PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return Err(AppendError::Busy),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        };
        let (file, bracket) = &mut *locked;
        file.seek(SeekFrom::Start(*bracket)).map_err(AppendError::Broken)?;
        if let Err(error) = file.write_all(&text) {
            // A part of the record may be there, on a full disk.
            let is_restored = file.seek(SeekFrom::Start(*bracket)).is_ok() && file.write_all(b"]").is_ok();
            let _ = is_restored && file.set_len(*bracket + 1).is_ok();
            return Err(AppendError::Broken(error));
        }
        *bracket += bytes;
        Ok(())
    }
}

/// Collects a record.
pub(crate) struct Writer {
    text: Vec<u8>,
    room: usize,
}

impl Sink for Writer {
    fn put(&mut self, step: Step) {
        let (word, advance) = (step.word, usize::from(step.advance));
        if advance <= self.left() {
            self.text.extend_from_slice(word.to_le_bytes().get(..advance).unwrap_or_default());
        }
    }

    fn left(&self) -> usize {
        self.room.saturating_sub(self.text.len())
    }
}

fn create_new(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    keep_for_this_process(&mut options);
    options.open(path)
}

/// Whether there is something else than a file that begins as a trace does, or an empty one.
fn is_other_data(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) || {
        let mut first = [0];
        File::open(path).is_ok_and(|mut file| file.read(&mut first).is_ok_and(|length| length == 1 && first != *b"["))
    }
}
