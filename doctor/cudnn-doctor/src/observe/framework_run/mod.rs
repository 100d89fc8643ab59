//! Runs a framework in a child process with the environment's Python. `cudnn_rules::framework_run` explains failures.

use cudnn_cli::subprocess::{Timeouts, run_command};
use cudnn_os::files::open_without_waiting;
use cudnn_probe::facts;
use cudnn_rules::check::machine::Machine;
use cudnn_rules::context::Context;
use cudnn_rules::framework_run::{ChildRun, NotRun, Run, RunnableFramework};
use std::ffi::OsString;
use std::io::{self, Error, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

pub(super) fn run(framework: RunnableFramework, context: &Context, machine: &Machine, timeouts: &Timeouts) -> Run {
    Run::of(framework, context, machine, |python| run_child(framework, &python.program, timeouts))
}

fn run_child(framework: RunnableFramework, python: &Path, timeouts: &Timeouts) -> Result<ChildRun, NotRun> {
    let run = format!("{} by {}", framework.name(), python.display());
    let log = Log::create(&run).map_err(NotRun::NoDirectory)?;
    let start = || run_command(command(python, framework, &log), timeouts);
    let ended = facts::ask_program("run of framework", &run, start).map_err(NotRun::NotStarted)?;
    Ok(ChildRun { ended, log: Box::new(move |start| log.text_from(start)) })
}

const COMMON: &str = include_str!("common.py");

const LOG_LEVEL: &str = "CUDNN_LOGLEVEL_DBG";
const LOG_DESTINATION: &str = "CUDNN_LOGDEST_DBG";

/// The maximum number of log bytes to read.
const MAX_LOG_LEN: u64 = 4 << 20;

/// Default settings, which the user's variables override. The log includes errors and warnings.
const SETTINGS: [(&str, &str); 4] = [
    (LOG_LEVEL, "2"),
    // By default, the frameworks would reserve all GPU memory.
    ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    // At this level, TensorFlow names a library that fails to load.
    ("TF_CPP_VMODULE", "dso_loader=1"),
];

/// Returns the framework's own part of the script.
fn script(framework: RunnableFramework) -> &'static str {
    match framework {
        RunnableFramework::Torch => include_str!("torch.py"),
        RunnableFramework::Jax => include_str!("jax.py"),
        RunnableFramework::Tensorflow => include_str!("tensorflow.py"),
        RunnableFramework::Onnxruntime => include_str!("onnxruntime.py"),
        RunnableFramework::Ctranslate2 => include_str!("ctranslate2.py"),
    }
}

pub(super) fn command(python: &Path, framework: RunnableFramework, log: &Log) -> Command {
    let mut command = Command::new(python);
    // Isolated mode (-I) would hide packages from PYTHONPATH and the user's site directory, where the fault may be.
    // Instead, the working directory is empty, and Python 3.11 and newer ignore it.
    command.args(["-u", "-c"]).arg(format!("{COMMON}\n{}", script(framework)));
    command.current_dir(log.dir.as_ref().map_or(Path::new("/"), TempDir::path));
    command.env("PYTHONSAFEPATH", "1").env("PYTHONDONTWRITEBYTECODE", "1").env("TF_CPP_MIN_LOG_LEVEL", "0");
    command.env_remove("PYTHONINSPECT").env(LOG_DESTINATION, &log.destination);
    command.envs(SETTINGS.into_iter().filter(|(name, _)| facts::variable(name).is_none()));
    command
}

/// The working directory of the child, which contains cuDNN's log unless the user redirected it.
pub(super) struct Log {
    /// `None` with saved facts, because no child runs then.
    dir: Option<TempDir>,
    destination: OsString,
    run: String,
}

impl Log {
    pub(super) fn create(run: &str) -> io::Result<Log> {
        let mut dir = None;
        let create = || tempfile::Builder::new().prefix("cudnn-doctor-").tempdir();
        let created: io::Result<()> = facts::ask("directory for a framework's log", run, || {
            dir = Some(create().map_err(|error| {
                let text = format!("cannot create a directory in {}: {error}", std::env::temp_dir().display());
                Error::new(error.kind(), text)
            })?);
            Ok(())
        });
        created?;
        let destination = match facts::variable(LOG_DESTINATION).filter(|destination| !destination.is_empty()) {
            Some(destination) if ["stdout", "stderr", "NULL"].iter().any(|name| destination == *name) => destination,
            // The child has a different working directory.
            Some(file) => std::path::absolute(&file).map_or(file, OsString::from),
            None => dir.iter().map(|dir| dir.path().join("cudnn.log").into_os_string()).collect(),
        };
        Ok(Log { dir, destination, run: run.to_owned() })
    }

    /// Returns the log from this position on. Empty if the log goes elsewhere.
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
