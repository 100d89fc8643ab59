//! Linux.

mod files;
mod interruption;
mod library;
mod memory;
mod pipes;
mod process;
mod processes;
mod watch;

use std::ffi::{CStr, OsStr, OsString};
use std::io::{Error, Result, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

pub(crate) use files::{
    belongs_to_root, belongs_to_user, changes_rights, copy_link, create_own_dir, create_private_dir, is_noexec,
    is_of_root, is_root, lock_dir, open_without_waiting, others_may_write, skip_hole, sync_dir, take_rights,
};
pub(crate) use interruption::{Interruption, end_by};
pub(crate) use library::{open_library, symbol};
pub(crate) use memory::{HELP as MEMORY_HELP, MemoryLimits};
pub(crate) use pipes::{Pipe, channel, pipe, random, receive, report};
pub(crate) use process::{MAX_PID, RIGHTS_HINT, loaded_libraries, names_of_parents, program_of, users_of, variable_of};
pub(crate) use processes::Child;
use watch::watch;

/// The help if the system's limits of processes, memory or files keep the doctor from starting a child.
pub(crate) const OPEN_LIMITS_HELP: &str =
    "free memory and processes, or raise the limits of the shell (`ulimit -a` shows them)";

/// Whether this program can load libraries: a static one cannot.
pub(crate) const CAN_LOAD: bool = !cfg!(target_feature = "crt-static");

/// Prepares this process: whoever started it may have had it ignore the ends of its children, whose statuses would be lost.
pub(crate) fn prepare() {
    // SAFETY: the process has one thread, and no handler of this signal.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// A directory in which ld.so finds nothing by an empty or relative element of LD_LIBRARY_PATH.
pub(crate) fn safe_working_dir() -> PathBuf {
    "/".into()
}

/// The words before this program on its command line: an ld.so that somebody started with the program as its argument,
/// and ld.so's options.
pub(crate) fn launcher() -> Vec<OsString> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<&[u8]> = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0).collect();
    // ld.so takes its own words away.
    let count = words.len().saturating_sub(std::env::args_os().count());
    let options = words.iter().take(count).skip(1).map(|word| OsStr::from_bytes(word).to_owned());
    let loader = std::env::current_exe().ok().filter(|_| count > 0).map(PathBuf::into_os_string);
    loader.into_iter().chain(options).collect()
}

/// This program's file. Without /proc, the path by which it was started.
pub(crate) fn executable() -> Result<PathBuf> {
    // The process's program is ld.so.
    if let (false, Some(program)) = (launcher().is_empty(), std::env::args_os().next()) {
        return std::path::absolute(program);
    }
    std::env::current_exe().or_else(|error| {
        // SAFETY: the call has no requirements.
        let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        if path.is_null() {
            return Err(error);
        }
        // SAFETY: the kernel has put a path there that ends with a zero byte, and that stays as long as the process.
        let path = unsafe { CStr::from_ptr(path) };
        std::path::absolute(OsStr::from_bytes(path.to_bytes()))
    })
}

/// Makes this process end when its parent ends: nobody else would end it if a library hangs.
pub(crate) fn end_with_parent() {
    // SAFETY: the call changes a setting of this process, and takes a signal.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // It fails for no signal that exists.
    debug_assert_eq!(result, 0);
}

/// Makes the child that this command starts end when this process ends.
pub(crate) fn end_child_with_this_process(command: &mut Command) {
    // SAFETY: the function makes one system call, which is allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            end_with_parent();
            Ok(())
        })
    };
}

/// Starts the program of this command in place of the doctor, in the same process. Returns only if that fails. Another process
/// calls `then` when the program has ended.
pub(crate) fn become_program(command: &mut Command, then: Option<&dyn Fn()>) -> Error {
    let watcher = then.and_then(|then| watch(then).ok());
    let error = command.exec();
    if let Some(mut watcher) = watcher {
        let _ = watcher.write_all(b"!");
    }
    error
}

/// The signal that ended a process.
pub(crate) fn crash_number(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// How a process failed, to follow its name.
pub(crate) fn failure(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}{}", signal_name(signal)),
        None => format!("failed with {status}"),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        _ => "",
    }
}

/// Why no child process could be started, and what to do about it.
pub(crate) fn cannot_start(error: &Error) -> (String, &'static str) {
    let (reason, help) = match error.raw_os_error() {
        Some(libc::EMFILE) => (
            format!("this process may have only {} open files (`ulimit -n`)", memory::limit_of_open_files()),
            "allow more open files: `ulimit -n 1024` in the shell that starts the doctor",
        ),
        Some(libc::EAGAIN) => (
            format!("no more processes may be started (`ulimit -u`, or the control group's pids.max): {error}"),
            "allow more processes: by `ulimit -u`, by `docker run --pids-limit`, or by the batch system",
        ),
        _ => (error.to_string(), "check that /proc is mounted, and that the doctor's own file can be executed"),
    };
    (format!("the doctor cannot start a child process: {reason}"), help)
}

/// Is it a limit of the system or the shell, and no fault of the program that was to start?
pub(crate) fn is_lack_of_resources(error: &Error) -> bool {
    let limits = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

/// Could a file not be opened because too many are open? That says nothing about the file.
pub(crate) fn is_lack_of_files(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Does ld.so split LD_LIBRARY_PATH here, or expand what follows?
pub(crate) fn is_search_path_separator(byte: u8) -> bool {
    b":;$".contains(&byte)
}

/// The elements of LD_LIBRARY_PATH, empty ones too.
pub(crate) fn split_search_path(value: &OsStr) -> Vec<OsString> {
    let elements = value.as_bytes().split(|byte| b":;".contains(byte));
    elements.map(|element| OsStr::from_bytes(element).to_owned()).collect()
}

/// The name by which a library of the driver is opened.
pub(crate) fn system_library(name: &str) -> PathBuf {
    name.into()
}

/// The Python of the environment with this root, whether it is there or not.
pub(crate) fn python_in(root: &Path) -> PathBuf {
    root.join("bin/python3")
}

/// The directory for what the doctor advises to install apart; `None` if this user can write to none.
pub(crate) fn data_dir() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home.is_dir());
    let of_user = home.map(|home| home.join(".local/share")).filter(|dir| files::can_write(dir));
    let of_root = || (is_root() || cudnn_probe::packages::is_on_path("sudo")).then(|| PathBuf::from("/opt"));
    of_user.or_else(of_root)
}

/// The command that lets everybody read a directory, whose name is quoted.
pub(crate) fn permit_command(quoted_dir: &str, is_own: bool) -> String {
    let sudo = if is_own { "" } else { "sudo " };
    format!("{sudo}chmod -R a+rX {quoted_dir}")
}

/// Has the reader of the output closed its pipe, in other words than `BrokenPipe`?
pub(crate) fn is_closed_pipe(_error: &Error) -> bool {
    false
}
