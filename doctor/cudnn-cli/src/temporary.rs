//! Temporary files, which are removed even if a signal terminates the program.

use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudnn_os::interruption::{self, Interruption, Signal};
use tempfile::Builder;

/// A temporary file. While one exists, signals are recorded, and end the program after a child process, or when the value
/// is dropped.
pub struct Temporary {
    path: PathBuf,
    /// Whether a signal arrived before. The command handles it and writes what it has.
    was_interrupted: bool,
}

struct State {
    paths: Vec<PathBuf>,
    /// Exists while there are paths.
    interruption: Option<Interruption>,
}

static STATE: Mutex<State> = Mutex::new(State { paths: Vec::new(), interruption: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn remove(&mut self, path: &Path) {
        // It may have been renamed.
        let _ = std::fs::remove_file(path);
        self.paths.retain(|known| known != path);
        if self.paths.is_empty() {
            self.interruption = None;
        }
    }
}

impl Temporary {
    /// Creates a file with the usual permissions in a directory.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn file_in(dir: &Path) -> Result<(Temporary, File)> {
        let mut state = state();
        if state.interruption.is_none() {
            state.interruption = Some(Interruption::catch());
        }
        let was_interrupted = state.interruption.as_ref().and_then(Interruption::signal).is_some();
        let created = Builder::new().make_in(dir, |path| File::create_new(path));
        match created.and_then(|file| Ok(file.keep()?)) {
            Ok((file, path)) => {
                state.paths.push(path.clone());
                Ok((Temporary { path, was_interrupted }, file))
            }
            Err(error) => {
                if state.paths.is_empty() {
                    state.interruption = None;
                }
                Err(error)
            }
        }
    }

    /// Moves the file to this name, replacing an older file in one step.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn rename(self, name: &Path) -> Result<()> {
        std::fs::rename(&self.path, name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut state = state();
        let signal = state.interruption.as_ref().and_then(Interruption::signal);
        if let Some(signal) = signal.filter(|_| !self.was_interrupted) {
            drop(state);
            end_by(signal);
        }
        state.remove(&self.path);
    }
}

/// Removes all temporary files, and terminates the program by this signal.
pub fn end_by(signal: Signal) -> ! {
    remove_all();
    interruption::end_by(signal)
}

/// Removes all temporary files, and exits with this status.
pub fn exit(code: i32) -> ! {
    remove_all();
    std::process::exit(code)
}

fn remove_all() {
    state().paths.iter().for_each(|path| _ = std::fs::remove_file(path));
}
