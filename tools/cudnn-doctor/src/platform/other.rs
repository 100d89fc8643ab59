//! Systems without cuDNN 9: everything compiles, and what needs the system answers that.

use std::convert::Infallible;
use std::ffi::{CStr, OsStr, OsString, c_void};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use cudnn_probe::MappedLibrary;

pub(crate) const MEMORY_HELP: &str = "allow more memory";
pub(crate) const OPEN_LIMITS_HELP: &str = "end other programs";

pub(crate) const CAN_LOAD: bool = true;

fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "there is no cuDNN 9 for this system")
}

pub(crate) fn prepare() {}

pub(crate) fn safe_working_dir() -> PathBuf {
    "/".into()
}

pub(crate) fn executable() -> Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn end_with_parent() {}

pub(crate) fn end_child_with_this_process(_command: &mut Command) {}

pub(crate) fn become_program(_command: &mut Command, _then: Option<&dyn Fn()>) -> Error {
    unsupported()
}

pub(crate) fn lock_dir(_dir: &Path) -> Result<Option<File>> {
    Ok(None)
}

pub(crate) fn sync_dir(_dir: &Path) {}

pub(crate) fn take_rights(_file: &File, _like: &std::fs::Metadata) -> Result<()> {
    Ok(())
}

pub(crate) fn copy_link(_link: &Path, _copy: &Path) -> Result<()> {
    Err(unsupported())
}

pub(crate) fn changes_rights(_program: &Path) -> bool {
    false
}

pub(crate) fn crash_number(_status: ExitStatus) -> Option<i32> {
    None
}

pub(crate) fn failure(status: ExitStatus) -> String {
    format!("failed with {status}")
}

pub(crate) fn cannot_start(error: &Error) -> (String, &'static str) {
    (format!("the doctor cannot start a child process: {error}"), "run it on Linux or Windows")
}

pub(crate) fn is_lack_of_resources(_error: &Error) -> bool {
    false
}

pub(crate) fn is_lack_of_files(_error: &Error) -> bool {
    false
}

pub(crate) fn open_without_waiting(file: &Path) -> Result<File> {
    if std::fs::metadata(file)?.is_file() { File::open(file) } else { Err(Error::other("not a regular file")) }
}

pub(crate) fn create_private_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir(dir)
}

pub(crate) fn skip_hole(_file: &File) -> Result<()> {
    Ok(())
}

pub(crate) fn is_root() -> bool {
    false
}

pub(crate) fn belongs_to_root(_path: &Path) -> bool {
    false
}

pub(crate) fn is_of_root(_path: &Path) -> bool {
    false
}

pub(crate) fn belongs_to_user(_path: &Path) -> bool {
    true
}

pub(crate) fn others_may_write(_path: &Path) -> bool {
    false
}

pub(crate) fn create_own_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
}

/// # Safety
/// Nothing is opened.
pub(crate) unsafe fn open_library(_file: &Path) -> std::result::Result<*mut c_void, String> {
    Err(unsupported().to_string())
}

/// # Safety
/// Nothing is looked up.
pub(crate) unsafe fn symbol(_handle: *mut c_void, _name: &CStr) -> *mut c_void {
    std::ptr::null_mut()
}

pub(crate) struct Pipe;

impl Pipe {
    pub(crate) fn read(&mut self, _into: &mut [u8]) -> Result<usize> {
        Err(unsupported())
    }
}

pub(crate) fn pipe() -> Result<(Pipe, Stdio)> {
    Err(unsupported())
}

pub(crate) fn channel(_text: &[u8]) -> Result<(Pipe, Stdio)> {
    Err(unsupported())
}

pub(crate) fn receive(_into: &mut [u8]) -> Option<usize> {
    None
}

pub(crate) fn report(_bytes: &[u8]) -> Result<()> {
    Err(unsupported())
}

pub(crate) fn random(_into: &mut [u8]) -> Result<()> {
    Err(unsupported())
}

pub(crate) struct Child;

impl Child {
    pub(crate) fn start(_command: &mut Command, _has_session: bool) -> Result<Child> {
        Err(unsupported())
    }

    pub(crate) fn has_ended(&self) -> bool {
        true
    }

    pub(crate) fn end(&mut self) -> Result<Option<ExitStatus>> {
        Err(unsupported())
    }

    pub(crate) fn activity(&self) -> Option<(u64, u64)> {
        None
    }
}

pub(crate) type Signal = Infallible;

pub(crate) struct Interruption;

impl Interruption {
    pub(crate) fn catch() -> Interruption {
        Interruption
    }

    pub(crate) fn signal(&self) -> Option<Signal> {
        None
    }
}

pub(crate) fn end_by(signal: Signal) -> ! {
    match signal {}
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLimits;

impl MemoryLimits {
    pub(crate) fn read() -> MemoryLimits {
        MemoryLimits
    }

    pub(crate) fn explains(&self, _number: Option<i32>, _stderr: &str) -> Option<String> {
        None
    }

    pub(crate) fn explains_message(&self, _message: &str) -> Option<String> {
        None
    }
}

pub(crate) const MAX_PID: i64 = u32::MAX as i64;
pub(crate) const RIGHTS_HINT: &str = "Only Linux and Windows are supported.";

pub(crate) fn loaded_libraries(_process: u32) -> Result<Vec<MappedLibrary>> {
    Err(unsupported())
}

pub(crate) fn program_of(_process: u32) -> Option<PathBuf> {
    None
}

pub(crate) fn users_of(_file: &Path) -> Option<Vec<String>> {
    None
}

pub(crate) fn variable_of(_process: u32, _name: &str) -> Option<OsString> {
    None
}

pub(crate) fn names_of_parents() -> Vec<String> {
    Vec::new()
}

/// Is a search path split here?
pub(crate) fn is_search_path_separator(byte: u8) -> bool {
    byte == b':'
}

/// The elements of a search path.
pub(crate) fn split_search_path(value: &OsStr) -> Vec<OsString> {
    std::env::split_paths(value).map(OsString::from).collect()
}

/// The name by which a library of the driver is opened.
pub(crate) fn system_library(name: &str) -> PathBuf {
    name.into()
}

/// The Python of the environment with this root, whether it is there or not.
pub(crate) fn python_in(root: &Path) -> PathBuf {
    root.join("bin/python3")
}

pub(crate) fn data_dir() -> Option<PathBuf> {
    Some("/opt".into())
}

pub(crate) fn launcher() -> Vec<OsString> {
    Vec::new()
}

pub(crate) fn is_noexec(_file: &Path) -> bool {
    false
}

pub(crate) fn permit_command(quoted_dir: &str, _is_own: bool) -> String {
    format!("chmod -R a+rX {quoted_dir}")
}

pub(crate) fn is_closed_pipe(_error: &Error) -> bool {
    false
}
