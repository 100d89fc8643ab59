//! The child process: how a framework's script is started by the interpreter: with the user's variables, cuDNN's log on, and
//! without the modules of the working directory.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::framework::Framework;
use crate::platform::{create_private_dir, end_child_with_this_process, open_without_waiting};

/// The part that all scripts share.
const COMMON: &str = include_str!("common.py");

/// cuDNN's variables for its log.
const LOG_LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const LOG_DESTINATION: &str = "CUDNN_LOGDEST_DBG";

/// The part of the log that is read, in bytes.
const MAX_LOG_LEN: u64 = 4 << 20;

/// What the frameworks must not do while they are tested, unless the user wants it: take all of the GPU's memory, or
/// keep their warnings to themselves.
const SETTINGS: [(&str, &str); 3] = [
    ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    // TensorFlow names the library that it cannot open only at this level.
    ("TF_CPP_VMODULE", "dso_loader=1"),
];

/// The command that runs the script of a framework by this interpreter.
pub(super) fn command(python: &Path, framework: Framework, log: &Log) -> Command {
    let mut command = Command::new(python);
    // Isolated mode (-I) would hide packages that PYTHONPATH and the user's site directory add, and with them the
    // fault. The working directory is empty; from Python 3.11 on it is not searched either.
    command.args(["-u", "-c"]).arg(format!("{COMMON}\n{}", framework.script())).current_dir(&log.dir);
    command.env("PYTHONSAFEPATH", "1").env("PYTHONDONTWRITEBYTECODE", "1").env("TF_CPP_MIN_LOG_LEVEL", "0");
    command.env_remove("PYTHONINSPECT");
    command.envs(SETTINGS.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()));
    command.env(LOG_DESTINATION, &log.destination);
    if std::env::var_os(LOG_LEVEL).is_none() {
        // Errors and warnings.
        command.env(LOG_LEVEL, "2");
    }
    end_child_with_this_process(&mut command);
    command
}

/// A private directory, removed on drop: the child's working directory, with cuDNN's log in it unless the user sends that
/// elsewhere.
pub(super) struct Log {
    dir: PathBuf,
    destination: OsString,
}

impl Log {
    pub(super) fn create() -> Result<Log> {
        let dir = private_dir()?;
        let destination = match std::env::var_os(LOG_DESTINATION).filter(|destination| !destination.is_empty()) {
            Some(destination) if ["stdout", "stderr", "NULL"].iter().any(|name| destination == *name) => destination,
            // The child has another working directory.
            Some(file) => std::path::absolute(&file).map_or(file, OsString::from),
            None => dir.join("cudnn.log").into_os_string(),
        };
        Ok(Log { dir, destination })
    }

    /// The text from this position on; empty if the log is no file.
    pub(super) fn text_from(&self, start: u64) -> String {
        let read = || {
            let mut file = open_without_waiting(Path::new(&self.destination))?;
            if !file.metadata()?.is_file() {
                return Err(Error::from(ErrorKind::InvalidInput));
            }
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(MAX_LOG_LEN).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A directory that stays is empty, or contains a log.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A new directory that only this user can enter.
fn private_dir() -> Result<PathBuf> {
    const MAX_ATTEMPTS: u32 = 1000;
    for attempt in 0..MAX_ATTEMPTS {
        let dir = std::env::temp_dir().join(format!("cudnn-doctor-{}-{attempt}", std::process::id()));
        match create_private_dir(&dir) {
            Ok(()) => return Ok(cudnn_probe::canonicalize(&dir).unwrap_or(dir)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::new(error.kind(), format!("cannot create {}: {error}", dir.display()))),
        }
    }
    Err(Error::other("no temporary directory can be created"))
}
