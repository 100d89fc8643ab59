//! Opens DLLs with the Windows loader and looks up exports. The caller selects the DLL.

use std::ffi::{OsStr, OsString};
use std::os::windows::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{ERROR_INVALID_NAME, GetLastError};
use windows_sys::Win32::System::Diagnostics::Debug::{
    FORMAT_MESSAGE_FROM_SYSTEM, FORMAT_MESSAGE_IGNORE_INSERTS, FormatMessageW, SEM_FAILCRITICALERRORS,
    SEM_NOOPENFILEERRORBOX, SetThreadErrorMode,
};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_PIN, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetDllDirectoryW, GetModuleHandleExW,
    LOAD_WITH_ALTERED_SEARCH_PATH, LoadLibraryExW,
};
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;

pub use super::library::Library;
use super::objects::ObjectEntry;
use super::wide::{read_wide, wide};
use crate::open_error::OpenError;

impl Library {
    // Windows searches the directory of the DLL before the program directory, the system directory and `PATH`. Errors
    // contain the number and text of the system error.
    pub unsafe fn open(path: &Path) -> Result<Self, OpenError> {
        // SAFETY: guaranteed by the caller.
        unsafe { open(path) }.map(|opened| opened.0)
    }

    // Windows has no lazy binding, and searches for names without a directory as usual.
    pub unsafe fn open_lazily(path: &Path) -> Result<Self, OpenError> {
        let Some(name) = wide(path.as_os_str()) else { return Err(refused(ERROR_INVALID_NAME)) };
        // SAFETY: guaranteed by the caller.
        unsafe { load(&name, 0) }
    }

    // Also prevents the DLL from being unloaded.
    pub fn loaded(name: &Path) -> Option<Self> {
        find_loaded(name.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_PIN)
    }
}

pub fn pin(path: &Path) -> bool {
    find_loaded(path.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_PIN).is_some()
}

pub struct OpenedLibrary(Library);

pub unsafe fn open(path: &Path) -> Result<OpenedLibrary, OpenError> {
    let Some(name) = wide(&long_path(path)) else { return Err(refused(ERROR_INVALID_NAME)) };
    let _no_dialogs = NoDialogs::new();
    // SAFETY: guaranteed by the caller.
    unsafe { load(&name, LOAD_WITH_ALTERED_SEARCH_PATH) }.map(OpenedLibrary)
}

impl OpenedLibrary {
    pub fn find(&self, _: &[ObjectEntry]) -> Result<Library, OpenError> {
        Ok(self.0)
    }
}

/// # Safety
/// The initialization code of the DLL runs.
unsafe fn load(name: &[u16], flags: u32) -> Result<Library, OpenError> {
    // SAFETY: the name is NUL-terminated, and the caller accepts that initialization code runs.
    let library = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), flags) };
    if library.is_null() {
        // SAFETY: the call involves no pointers.
        return Err(refused(unsafe { GetLastError() }));
    }
    Ok(Library(library))
}

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

// Returns the directory where drivers install DLLs.
pub fn system_dir() -> Option<PathBuf> {
    // SAFETY: the buffer and the length match.
    let dir = read_wide(|buffer| unsafe { GetSystemDirectoryW(buffer.as_mut_ptr(), buffer.len() as u32) });
    Some(dir.unwrap_or_else(|| r"C:\Windows\System32".into()).into())
}

// Returns the directory from `SetDllDirectory`.
pub fn added_dir() -> Option<PathBuf> {
    // SAFETY: the buffer and the length match.
    let dir = read_wide(|buffer| unsafe { GetDllDirectoryW(buffer.len() as u32, buffer.as_mut_ptr()) });
    dir.map(PathBuf::from)
}

fn find_loaded(name: &OsStr, flags: u32) -> Option<Library> {
    let name = wide(name)?;
    let mut library = null_mut();
    // SAFETY: the name is NUL-terminated, and the output pointer is valid.
    let is_found = unsafe { GetModuleHandleExW(flags, name.as_ptr(), &raw mut library) } != 0;
    (is_found && !library.is_null()).then_some(Library(library))
}

pub fn is_loaded(name: &Path) -> bool {
    find_loaded(name.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT).is_some()
}

// Not needed, because a new thread cannot start while another thread holds the loader lock.
pub fn wait_for_lock() {}

fn refused(code: u32) -> OpenError {
    OpenError::Refused(format!("error {code}: {}", text_of(code)))
}

fn text_of(code: u32) -> String {
    const ENGLISH: u32 = 0x409;
    const LANGUAGE_OF_THE_USER: u32 = 0;
    let flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    let read = |language: u32| {
        read_wide(|buffer| {
            let length = buffer.len() as u32;
            // SAFETY: the buffer has the passed length, and the message does not use arguments.
            unsafe { FormatMessageW(flags, null_mut(), code, language, buffer.as_mut_ptr(), length, std::ptr::null()) }
        })
    };
    let text = read(ENGLISH).or_else(|| read(LANGUAGE_OF_THE_USER)).unwrap_or_default();
    // Callers of the system function have to replace the placeholder for the file name.
    text.to_string_lossy().trim().replace("%1", "the file")
}

struct NoDialogs {
    previous: u32,
}

impl NoDialogs {
    fn new() -> Self {
        let mut previous = 0;
        // SAFETY: the output pointer is valid.
        unsafe { SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &raw mut previous) };
        NoDialogs { previous }
    }
}

impl Drop for NoDialogs {
    fn drop(&mut self) {
        // SAFETY: this is the previous mode of the thread.
        unsafe { SetThreadErrorMode(self.previous, null_mut()) };
    }
}
