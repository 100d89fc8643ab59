//! The loader of Windows: opening DLLs and looking up exports. The only module that opens DLLs; it does not know which to
//! open, or why.

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::os::windows::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr::null_mut;

use cudnn_probe::Host;
use cudnn_probe::dll_search::{self, Facts, Failure, Symbol};
use windows_sys::Win32::Foundation::{ERROR_INVALID_NAME, GetLastError, HMODULE};
use windows_sys::Win32::System::Diagnostics::Debug::{
    FORMAT_MESSAGE_FROM_SYSTEM, FORMAT_MESSAGE_IGNORE_INSERTS, FormatMessageW, SEM_FAILCRITICALERRORS,
    SEM_NOOPENFILEERRORBOX, SetThreadErrorMode,
};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_PIN, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetDllDirectoryW, GetModuleHandleExW,
    GetProcAddress, LOAD_WITH_ALTERED_SEARCH_PATH, LoadLibraryExW,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

use super::names::driver_file;
use super::objects::read_list;
use super::wide::{read_wide, wide};
use crate::dl::dlerror::{DlErrorKind, OpenError};

/// There is a cuDNN for this system.
pub(crate) const HAS_CUDNN: bool = true;

/// A DLL that this process has loaded. It is never freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle(HMODULE);

// SAFETY: a handle is a token that GetProcAddress takes from any thread; it is never freed.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Opens the DLL at this absolute path, with its dependencies. Its directory comes before those of the program, of the
/// system and of `PATH`.
///
/// # Errors
/// The number and the text of the system's error.
pub(crate) fn open(path: &Path) -> Result<Handle, OpenError> {
    let Some(name) = wide(&long_path(path)) else { return Err(open_error(ERROR_INVALID_NAME)) };
    let _no_dialogs = NoDialogs::new();
    // SAFETY: the DLL's initialisation runs, as the caller of a cuDNN function expects. The file has been identified as
    // cuDNN's, or is the driver's.
    let library = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), LOAD_WITH_ALTERED_SEARCH_PATH) };
    if !library.is_null() {
        return Ok(Handle(library));
    }
    // SAFETY: the call takes nothing.
    let code = unsafe { GetLastError() };
    Err(explained(open_error(code), path))
}

/// The path as functions take it that know no longer paths than 259 units.
fn long_path(path: &Path) -> OsString {
    const MAX_PATH: usize = 259;
    let is_on_drive = |path: &Path| match path.components().next() {
        Some(Component::Prefix(prefix)) => matches!(prefix.kind(), Prefix::Disk(_)),
        _ => false,
    };
    if path.as_os_str().encode_wide().count() <= MAX_PATH || !is_on_drive(path) {
        return path.into();
    }
    let mut long = OsString::from(r"\\?\");
    long.push(path);
    long
}

/// The driver's DLL, which its installer puts into the system's directory. It is taken from nowhere else.
pub(crate) fn driver_path() -> PathBuf {
    system_dir().join(driver_file!())
}

fn system_dir() -> PathBuf {
    // SAFETY: the buffer has the length that is passed.
    let dir = read_wide(|buffer| unsafe { GetSystemDirectoryW(buffer.as_mut_ptr(), buffer.len() as u32) });
    dir.unwrap_or_else(|| r"C:\Windows\System32".into()).into()
}

/// The loaded DLL that the system's loader returns for this name, never to be unloaded from now on.
pub(crate) fn open_loaded(name: &str) -> Option<Handle> {
    find_loaded(name.as_ref(), GET_MODULE_HANDLE_EX_FLAG_PIN)
}

/// As above, by path.
pub(crate) fn pin(file: &Path) -> Option<Handle> {
    find_loaded(file.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_PIN)
}

fn find_loaded(name: &OsStr, flags: u32) -> Option<Handle> {
    let name = wide(name)?;
    let mut library = null_mut();
    // SAFETY: the name ends in NUL, and the answer has room.
    let is_found = unsafe { GetModuleHandleExW(flags, name.as_ptr(), &raw mut library) } != 0;
    (is_found && !library.is_null()).then_some(Handle(library))
}

/// Whether the loaded DLL at this path exports a symbol.
pub(crate) fn exports(path: &Path, name: &CStr) -> bool {
    let library = find_loaded(path.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
    library.is_some_and(|library| symbol(&library, name).is_some())
}

/// Nothing waits for the loader's lock here: while this thread has it, a new thread does not even start.
pub(crate) fn wait_for_lock() {}

/// There is one.
pub(crate) fn is_in_first_namespace(_: Handle) -> bool {
    true
}

/// The address of an export of the DLL.
pub(crate) fn symbol(handle: &Handle, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle was never freed, and the name ends in NUL.
    let address = unsafe { GetProcAddress(handle.0, name.as_ptr().cast()) };
    address.map(|function| function as *mut c_void)
}

/// Windows does not start programs with the rights of others and the environment of a user.
#[must_use]
pub fn is_secure_execution() -> bool {
    false
}

fn open_error(code: u32) -> OpenError {
    OpenError { cause: DlErrorKind::Other, message: format!("error {code}: {}", text_of(code)) }
}

/// Adds what the system knows and does not tell: the name of the DLL or the symbol that is missing, which other file it
/// cannot load.
fn explained(error: OpenError, path: &Path) -> OpenError {
    let Some(failure) = dll_search::explain(path, &facts()) else { return error };
    let message = format!("{} The files show: {failure}", error.message);
    let cause = match failure {
        Failure::MissingDll { name, needed_by: Some(_) } => DlErrorKind::MissingDependency { name },
        Failure::MissingSymbol { symbol: Symbol::Name(name), dll, .. } => {
            let library = dll.file_name().map(|name| name.to_string_lossy().into_owned());
            DlErrorKind::UndefinedSymbol { name, library }
        }
        _ => DlErrorKind::Other,
    };
    OpenError { cause, message }
}

/// What the search for DLLs depends on in this process.
pub(super) fn facts() -> Facts {
    let mut facts = Facts::of_host(&Host::current());
    facts.system_dir = Some(system_dir());
    facts.working_dir = std::env::current_dir().ok();
    // SAFETY: the buffer has the length that is passed.
    let set = read_wide(|buffer| unsafe { GetDllDirectoryW(buffer.len() as u32, buffer.as_mut_ptr()) });
    facts.dll_directory = set.map(PathBuf::from);
    facts.loaded = read_list().into_iter().map(|entry| entry.path).collect();
    facts
}

/// The system's text for an error, in English if it has that.
fn text_of(code: u32) -> String {
    const ENGLISH: u32 = 0x409;
    const LANGUAGE_OF_THE_USER: u32 = 0;
    let flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    let read = |language: u32| {
        read_wide(|buffer| {
            let length = buffer.len() as u32;
            // SAFETY: the buffer has the length that is passed; the text takes no arguments.
            unsafe { FormatMessageW(flags, null_mut(), code, language, buffer.as_mut_ptr(), length, std::ptr::null()) }
        })
    };
    let text = read(ENGLISH).or_else(|| read(LANGUAGE_OF_THE_USER)).unwrap_or_default();
    // The place of the file's name, which the system's loader leaves to its callers.
    text.to_string_lossy().trim().replace("%1", "the file")
}

/// Makes the system show no dialog box for this thread's errors while the value lives.
struct NoDialogs {
    previous: u32,
}

impl NoDialogs {
    fn new() -> Self {
        let mut previous = 0;
        // SAFETY: the answer has room.
        unsafe { SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &raw mut previous) };
        NoDialogs { previous }
    }
}

impl Drop for NoDialogs {
    fn drop(&mut self) {
        // SAFETY: the mode that the thread had before.
        unsafe { SetThreadErrorMode(self.previous, null_mut()) };
    }
}
