//! Windows.

mod files;
mod library;
mod memory;
mod pipes;
mod process;
mod processes;

use std::ffi::{OsStr, OsString};
use std::io::{Error, Result};
use std::os::windows::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use windows_sys::Win32::Foundation;
use windows_sys::Win32::System::Diagnostics::Debug::{
    SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX, SetErrorMode,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

pub(crate) use files::{
    belongs_to_root, belongs_to_user, changes_rights, copy_link, create_own_dir, create_private_dir, is_of_root,
    is_root, lock_dir, open_without_waiting, others_may_write, skip_hole, sync_dir, take_rights,
};
pub(crate) use library::{open_library, symbol};
pub(crate) use memory::{HELP as MEMORY_HELP, MemoryLimits};
pub(crate) use pipes::{Pipe, channel, pipe, random, receive, report};
pub(crate) use process::{MAX_PID, RIGHTS_HINT, loaded_libraries, names_of_parents, program_of, users_of, variable_of};
pub(crate) use processes::{Child, Interruption, end_by};

/// The help if the system's limits of processes, memory or files keep the doctor from starting a child.
pub(crate) const OPEN_LIMITS_HELP: &str = "end other programs, or enlarge the paging file";

/// Whether this program can load libraries: on Windows a static one can, too.
pub(crate) const CAN_LOAD: bool = true;

/// The codes of processes that Windows ended, or that ended themselves for a fault.
const FAULTS: [(u32, &str); 11] = [
    (0xc000_0005, "access violation"),
    (0xc000_0017, "no memory"),
    (0xc000_001d, "illegal instruction"),
    (0xc000_0094, "integer division by zero"),
    (0xc000_00fd, "stack overflow"),
    (0xc000_012d, "commit limit"),
    (0xc000_0135, "a DLL was not found"),
    (0xc000_0139, "a DLL lacks a function"),
    (0xc000_0142, "the initialization of a DLL failed"),
    (0xc000_0374, "heap corruption"),
    (0xc000_0409, "fail-fast: an abort, or a damaged stack"),
];

/// Prepares this process and its children: no message box must wait for a click.
pub(crate) fn prepare() {
    // SAFETY: the call changes a setting of this process.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX) };
}

/// Windows cannot start a program in place of this one.
pub(crate) fn become_program(_command: &mut Command, _then: Option<&dyn Fn()>) -> Error {
    std::io::ErrorKind::Unsupported.into()
}

/// A directory that holds the system's own DLLs: Windows searches the working directory, too.
pub(crate) fn safe_working_dir() -> PathBuf {
    system_dir().unwrap_or_else(|| PathBuf::from(r"C:\Windows\System32"))
}

/// `C:\Windows\System32`.
pub(crate) fn system_dir() -> Option<PathBuf> {
    let mut path = [0u16; 300];
    // SAFETY: the buffer has this length, which fits a `u32`.
    let len = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), path.len() as u32) };
    let path = path.get(..usize::try_from(len).ok()?).filter(|path| !path.is_empty())?;
    Some(OsString::from_wide(path).into())
}

/// This program's file.
pub(crate) fn executable() -> Result<PathBuf> {
    std::env::current_exe()
}

/// Makes this process end when its parent ends: the parent's job does that.
pub(crate) fn end_with_parent() {}

/// Makes the child that this command starts end when this process ends: its job does that.
pub(crate) fn end_child_with_this_process(_command: &mut Command) {}

/// The code of a process that ended for a fault.
pub(crate) fn crash_number(status: ExitStatus) -> Option<i32> {
    let code = status.code()?;
    ((code as u32) >> 28 == 0xc).then_some(code)
}

/// How a process failed, to follow its name.
pub(crate) fn failure(status: ExitStatus) -> String {
    match crash_number(status) {
        Some(code) => {
            let code = code as u32;
            let fault = FAULTS.iter().find(|(known, _)| *known == code);
            format!("crashed with code {code:#010x}{}", fault.map_or(String::new(), |(_, text)| format!(" ({text})")))
        }
        None => format!("failed with {status}"),
    }
}

/// Why no child process could be started, and what to do about it.
pub(crate) fn cannot_start(error: &Error) -> (String, &'static str) {
    let help = if is_lack_of_resources(error) {
        OPEN_LIMITS_HELP
    } else {
        "check that the doctor's own file can be executed, and that no virus scanner or policy forbids it"
    };
    (format!("the doctor cannot start a child process: {error}"), help)
}

/// Is it a limit of the system, and no fault of the program that was to start?
pub(crate) fn is_lack_of_resources(error: &Error) -> bool {
    let limits = [
        Foundation::ERROR_TOO_MANY_OPEN_FILES,
        Foundation::ERROR_NOT_ENOUGH_MEMORY,
        Foundation::ERROR_OUTOFMEMORY,
        Foundation::ERROR_NO_SYSTEM_RESOURCES,
        Foundation::ERROR_COMMITMENT_LIMIT,
        Foundation::ERROR_NOT_ENOUGH_QUOTA,
    ];
    error.raw_os_error().and_then(|number| u32::try_from(number).ok()).is_some_and(|number| limits.contains(&number))
}

/// Could a file not be opened because too many are open? That says nothing about the file.
pub(crate) fn is_lack_of_files(error: &Error) -> bool {
    error.raw_os_error().and_then(|number| u32::try_from(number).ok()) == Some(Foundation::ERROR_TOO_MANY_OPEN_FILES)
}

/// Does Windows split PATH here?
pub(crate) fn is_search_path_separator(byte: u8) -> bool {
    byte == b';'
}

/// The elements of PATH.
pub(crate) fn split_search_path(value: &OsStr) -> Vec<OsString> {
    std::env::split_paths(value).map(OsString::from).collect()
}

/// The path of a library of the driver, which Windows' own directory has: a file of that name elsewhere is another one.
pub(crate) fn system_library(name: &str) -> PathBuf {
    safe_working_dir().join(name)
}

/// The Python of the environment with this root, whether it is there or not: a virtual environment has it in `Scripts`.
pub(crate) fn python_in(root: &Path) -> PathBuf {
    let scripts = root.join("Scripts").join("python.exe");
    if root.join("pyvenv.cfg").is_file() || scripts.is_file() { scripts } else { root.join("python.exe") }
}

/// The directory for what the doctor advises to install apart.
pub(crate) fn data_dir() -> Option<PathBuf> {
    let data = std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|data| data.is_absolute());
    Some(data.unwrap_or_else(|| PathBuf::from(r"C:\ProgramData")))
}

/// Windows starts programs in one way.
pub(crate) fn launcher() -> Vec<OsString> {
    Vec::new()
}

/// No file system here keeps programs from being executed.
pub(crate) fn is_noexec(_file: &Path) -> bool {
    false
}

/// The command that lets all users read a directory, whose name is quoted: `*S-1-5-32-545` are the users, in any language.
pub(crate) fn permit_command(quoted_dir: &str, _is_own: bool) -> String {
    format!("icacls {quoted_dir} /grant \"*S-1-5-32-545:(OI)(CI)RX\" /T")
}

/// Has the reader of the output closed its pipe, in other words than `BrokenPipe`?
pub(crate) fn is_closed_pipe(error: &Error) -> bool {
    let number = error.raw_os_error().and_then(|number| u32::try_from(number).ok());
    matches!(number, Some(Foundation::ERROR_PIPE_NOT_CONNECTED | Foundation::ERROR_NO_DATA))
}
