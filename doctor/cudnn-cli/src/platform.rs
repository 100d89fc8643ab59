//! What this program can do on this system, and help if it cannot.

use std::io::Error;
use std::path::PathBuf;

use cudnn_os::errors::{is_lack_of_resources, limit_of_open_files};
use cudnn_os::{IS_LINUX, IS_WINDOWS, libraries};
use cudnn_probe::facts;

/// Whether this program can load libraries, unlike a static build for Linux.
pub const CAN_LOAD: bool = !(IS_LINUX && cfg!(target_feature = "crt-static"));

/// The error of a static build.
pub const STATIC: &str = "this program is static: it can read files, but not load libraries";
/// The help for a static build.
pub const STATIC_HELP: &str = "use the one from the wheel, the archive for Linux, or cargo, which need glibc";

/// The help if the memory is exhausted.
pub const MEMORY_HELP: &str = if IS_WINDOWS {
    "enlarge Windows' paging file (in the system's advanced settings: Performance, Advanced, Virtual memory), or end other \
     programs; in a container or a batch system, allow more memory"
} else {
    "allow more memory: with `ulimit -v unlimited`, and `ulimit -s 8192` for the stack, in the shell that starts the \
     program, with `docker run --memory`, Kubernetes' limits.memory, or Slurm's --mem"
};

/// The help if limits on processes, memory or files prevent the start of a child.
pub const OPEN_LIMITS_HELP: &str = if IS_WINDOWS {
    "close other programs, or enlarge the paging file"
} else {
    "free memory and processes, or raise the limits of the shell (`ulimit -a` shows them)"
};

/// Explains why a child process could not be started, with help.
pub fn cannot_start(error: &Error) -> (String, &'static str) {
    let (reason, help) = if IS_WINDOWS && is_lack_of_resources(error) {
        (error.to_string(), OPEN_LIMITS_HELP)
    } else if IS_WINDOWS {
        let help = "check that the program's own file can be executed, and that it is not blocked by a virus scanner or policy";
        (error.to_string(), help)
    } else if let Some(limit) = facts::ask("limit of open files", &*error.to_string(), || limit_of_open_files(error)) {
        (
            format!("this process may have only {limit} open files (`ulimit -n`)"),
            "allow more open files: `ulimit -n 1024` in the shell that starts the program",
        )
    } else if error.kind() == std::io::ErrorKind::WouldBlock {
        (
            format!("no more processes may be started (`ulimit -u`, or the control group's pids.max): {error}"),
            "allow more processes: with `ulimit -u`, with `docker run --pids-limit`, or in the batch system",
        )
    } else {
        (error.to_string(), "check that /proc is mounted, and that the program's own file can be executed")
    };
    (format!("this program cannot start a child process: {reason}"), help)
}

/// Returns a working directory with only system libraries. Windows searches it, and so does ld.so for an empty or
/// relative element of LD_LIBRARY_PATH.
pub fn safe_working_dir() -> PathBuf {
    libraries::system_dir().unwrap_or_else(|| "/".into())
}
