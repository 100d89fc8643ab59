//! Provides advice that differs between operating systems. System calls are in the crate cudnn-os.

use cudnn_probe::facts;
use std::io::{Error, Result};
use std::path::PathBuf;

use cudnn_frameworks::{MappedLibrary, mapped_libraries};
use cudnn_os::errors::{is_lack_of_files, is_lack_of_resources, limit_of_open_files};
use cudnn_os::{IS_LINUX, IS_WINDOWS, libraries, processes};
use cudnn_probe::ProbeError;

pub(crate) use crate::packages::python_in;

/// Whether this program can load libraries. A static build for Linux cannot.
pub(crate) const CAN_LOAD: bool = !(IS_LINUX && cfg!(target_feature = "crt-static"));

/// A message about the static build's limits, with an alternative.
pub(crate) const STATIC: &str = "this cudnn-doctor is static: it can read files, but not load libraries";
pub(crate) const STATIC_HELP: &str =
    "use the cudnn-doctor from the wheel, the archive for Linux, or cargo, which need glibc";

/// The help for a program that runs out of memory.
pub(crate) const MEMORY_HELP: &str = if IS_WINDOWS {
    "enlarge Windows' paging file (in the system's advanced settings: Performance, Advanced, Virtual memory), or end other \
     programs; in a container or a batch system, allow more memory"
} else {
    "allow more memory: with `ulimit -v unlimited`, and `ulimit -s 8192` for the stack, in the shell that starts the \
     program, with `docker run --memory`, Kubernetes' limits.memory, or Slurm's --mem"
};

/// The help if system limits on processes, memory or files prevent the doctor from starting a child.
pub(crate) const OPEN_LIMITS_HELP: &str = if IS_WINDOWS {
    "close other programs, or enlarge the paging file"
} else {
    "free memory and processes, or raise the limits of the shell (`ulimit -a` shows them)"
};

/// Explains which processes the user can inspect.
pub(crate) const RIGHTS_HINT: &str = if IS_WINDOWS {
    "The process must be running, and you must own it or start the doctor as administrator."
} else {
    "The process must be running, and you must own it or be root."
};

/// Explains why a child process could not be started, with help.
pub(crate) fn cannot_start(error: &Error) -> (String, &'static str) {
    let (reason, help) = if IS_WINDOWS && is_lack_of_resources(error) {
        (error.to_string(), OPEN_LIMITS_HELP)
    } else if IS_WINDOWS {
        let help =
            "check that the doctor's own file can be executed, and that it is not blocked by a virus scanner or policy";
        (error.to_string(), help)
    } else if let Some(limit) = facts::ask("limit of open files", "", || limit_of_open_files(error)) {
        (
            format!("this process may have only {limit} open files (`ulimit -n`)"),
            "allow more open files: `ulimit -n 1024` in the shell that starts the doctor",
        )
    } else if error.kind() == std::io::ErrorKind::WouldBlock {
        (
            format!("no more processes may be started (`ulimit -u`, or the control group's pids.max): {error}"),
            "allow more processes: with `ulimit -u`, with `docker run --pids-limit`, or in the batch system",
        )
    } else {
        (error.to_string(), "check that /proc is mounted, and that the doctor's own file can be executed")
    };
    (format!("the doctor cannot start a child process: {reason}"), help)
}

/// Returns whether the file could not be read because too many files are open. This does not indicate a problem with
/// the file.
pub(crate) fn is_too_many_open_files(error: &ProbeError) -> bool {
    matches!(error, ProbeError::Unreadable { error } if is_lack_of_files(error))
}

/// Returns the libraries that a process has loaded.
pub(crate) fn loaded_libraries(process: u32) -> Result<Vec<MappedLibrary>> {
    if IS_LINUX {
        return mapped_libraries(process);
    }
    let paths = processes::libraries_of(process)?;
    Ok(paths.into_iter().enumerate().map(|(index, path)| MappedLibrary::new(path, index)).collect())
}

/// Returns a working directory that contains only system libraries. Windows searches the working directory, and ld.so
/// does too for an empty or relative element of LD_LIBRARY_PATH.
pub(crate) fn safe_working_dir() -> PathBuf {
    libraries::system_dir().unwrap_or_else(|| "/".into())
}

/// Returns the name or path for opening a driver library. On Windows it is a path in the system directory, because
/// files with this name elsewhere are unrelated.
pub(crate) fn system_library(name: &str) -> PathBuf {
    libraries::system_dir().map_or_else(|| name.into(), |dir| dir.join(name))
}
