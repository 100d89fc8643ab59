//! Temporary files and directories, which are removed even if a signal terminates the program.

use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudnn_os::interruption::{self, Interruption, Signal};
use tempfile::{Builder, TempDir};

/// A temporary file or directory. While one exists, signals are recorded, and end the program in [`check`], after a
/// child process, or when the value is dropped.
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
        remove(path);
        self.paths.retain(|known| known != path);
        if self.paths.is_empty() {
            self.interruption = None;
        }
    }
}

impl Temporary {
    /// Creates a directory for this user only.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn dir() -> Result<Temporary> {
        let create = || Ok((TempDir::new()?.keep(), ()));
        Ok(Self::create(create)?.0)
    }

    /// Creates a file for this user only in the directory for temporary files.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn file() -> Result<(Temporary, File)> {
        Self::create(|| {
            let (file, path) = Builder::new().tempfile()?.keep()?;
            Ok((path, file))
        })
    }

    /// Creates a file with the usual permissions in a directory.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn file_in(dir: &Path) -> Result<(Temporary, File)> {
        Self::create(|| {
            let (file, path) = Builder::new().make_in(dir, |path| File::create_new(path))?.keep()?;
            Ok((path, file))
        })
    }

    fn create<T>(create: impl FnOnce() -> Result<(PathBuf, T)>) -> Result<(Temporary, T)> {
        let mut state = state();
        if state.interruption.is_none() {
            state.interruption = Some(Interruption::catch());
        }
        let was_interrupted = state.interruption.as_ref().and_then(Interruption::signal).is_some();
        let created = create();
        match created {
            Ok((path, value)) => {
                state.paths.push(path.clone());
                Ok((Temporary { path, was_interrupted }, value))
            }
            Err(error) => {
                if state.paths.is_empty() {
                    state.interruption = None;
                }
                Err(error)
            }
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
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
        if !self.was_interrupted {
            check();
        }
        state().remove(&self.path);
    }
}

/// Terminates the program if a signal has arrived. Long work with temporary files calls this function regularly.
pub fn check() {
    let signal = state().interruption.as_ref().and_then(Interruption::signal);
    if let Some(signal) = signal {
        end_by(signal);
    }
}

/// Removes all temporary files and directories, and terminates the program by this signal.
pub fn end_by(signal: Signal) -> ! {
    remove_all();
    interruption::end_by(signal)
}

/// Removes all temporary files and directories, and exits with this status.
pub fn exit(code: i32) -> ! {
    remove_all();
    std::process::exit(code)
}

fn remove_all() {
    state().paths.iter().for_each(|path| remove(path));
}

/// Removes a file or directory, which may have been renamed.
fn remove(path: &Path) {
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}
