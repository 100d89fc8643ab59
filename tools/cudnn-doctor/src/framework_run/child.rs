//! Starts the script of a framework in its interpreter. The child has the user's variables, but not the modules of the
//! working directory.

use cudnn_probe::facts;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use cudnn_os::child::end_child_with_this_process;
use cudnn_os::files::open_without_waiting;
use tempfile::TempDir;

use super::framework::Framework;

/// The part that all scripts share.
const COMMON: &str = include_str!("common.py");

/// cuDNN's variables for its log.
const LOG_LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const LOG_DESTINATION: &str = "CUDNN_LOGDEST_DBG";

/// The part of the log that is read, in bytes.
const MAX_LOG_LEN: u64 = 4 << 20;

/// Variables that the user's own go before. The log is of errors and warnings.
const SETTINGS: [(&str, &str); 4] = [
    (LOG_LEVEL, "2"),
    // Otherwise the frameworks take all of the GPU's memory.
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
    command.args(["-u", "-c"]).arg(format!("{COMMON}\n{}", framework.script()));
    command.current_dir(log.dir.as_ref().map_or(Path::new("/"), TempDir::path));
    command.env("PYTHONSAFEPATH", "1").env("PYTHONDONTWRITEBYTECODE", "1").env("TF_CPP_MIN_LOG_LEVEL", "0");
    command.env_remove("PYTHONINSPECT").env(LOG_DESTINATION, &log.destination);
    command.envs(SETTINGS.into_iter().filter(|(name, _)| facts::variable(name).is_none()));
    end_child_with_this_process(&mut command);
    command
}

/// The child's working directory, with cuDNN's log in it unless the user sends that elsewhere.
pub(super) struct Log {
    /// `None` with saved facts, which need no child.
    dir: Option<TempDir>,
    destination: OsString,
    /// The framework that is run.
    run: String,
}

impl Log {
    pub(super) fn create(run: &str) -> Result<Log> {
        let mut dir = None;
        let create = || tempfile::Builder::new().prefix("cudnn-doctor-").tempdir();
        let created: Result<()> = facts::ask("directory for a framework's log", run, || {
            dir = Some(create().map_err(|error| {
                let text = format!("cannot create a directory in {}: {error}", std::env::temp_dir().display());
                Error::new(error.kind(), text)
            })?);
            Ok(())
        });
        created?;
        let destination = match facts::variable(LOG_DESTINATION).filter(|destination| !destination.is_empty()) {
            Some(destination) if ["stdout", "stderr", "NULL"].iter().any(|name| destination == *name) => destination,
            // The child has another working directory.
            Some(file) => std::path::absolute(&file).map_or(file, OsString::from),
            None => dir.iter().map(|dir| dir.path().join("cudnn.log").into_os_string()).collect(),
        };
        Ok(Log { dir, destination, run: run.to_owned() })
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
        facts::ask("log of framework", format!("{} from {start}", self.run), || {
            String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
        })
    }
}
