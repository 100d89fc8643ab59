//! The loader of Windows: opening DLLs and looking up exports. It does not know which DLL to open, or why.

use std::ffi::{CStr, OsStr, OsString, c_void};
use std::os::windows::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr::null_mut;

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

use super::wide::{read_wide, wide};

/// A DLL that this process has loaded. It is never freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(HMODULE);

// SAFETY: a handle is a token that GetProcAddress takes from any thread; it is never freed.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the DLL at this absolute path, with its dependencies. Its directory comes before those of the program, of the
    /// system and of `PATH`.
    ///
    /// # Errors
    /// The number and the text of the system's error.
    ///
    /// # Safety
    /// The DLL's initialization runs.
    pub unsafe fn open(path: &Path) -> Result<Self, String> {
        let Some(name) = wide(&long_path(path)) else { return Err(message(ERROR_INVALID_NAME)) };
        let _no_dialogs = NoDialogs::new();
        // SAFETY: the caller's obligation, passed on.
        unsafe { load(&name, LOAD_WITH_ALTERED_SEARCH_PATH) }
    }

    /// Opens a DLL as programs do: a name without a directory is searched for.
    ///
    /// # Errors
    /// The number and the text of the system's error.
    ///
    /// # Safety
    /// The DLL's initialization runs.
    pub unsafe fn open_lazily(path: &Path) -> Result<Self, String> {
        let Some(name) = wide(path.as_os_str()) else { return Err(message(ERROR_INVALID_NAME)) };
        // SAFETY: the caller's obligation, passed on.
        unsafe { load(&name, 0) }
    }

    /// Returns the loaded DLL that the system's loader finds for this name or path, never to be unloaded from now on.
    pub fn loaded(name: &Path) -> Option<Self> {
        find_loaded(name.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_PIN)
    }

    /// Returns the loaded DLL at this path, and prevents the system from unloading it from now on.
    pub fn pin(path: &Path) -> Option<Self> {
        find_loaded(path.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_PIN)
    }

    /// Returns the address of an export of the DLL.
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle was never freed, and the name ends in NUL.
        let address = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
        address.map(|function| function as *mut c_void)
    }

    /// Returns `true`: there is one namespace.
    pub fn is_in_first_namespace(self) -> bool {
        true
    }
}

/// # Safety
/// The DLL's initialization runs.
unsafe fn load(name: &[u16], flags: u32) -> Result<Library, String> {
    // SAFETY: the name ends in NUL, and the rest is the caller's obligation.
    let library = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), flags) };
    if library.is_null() {
        // SAFETY: the call takes nothing.
        return Err(message(unsafe { GetLastError() }));
    }
    Ok(Library(library))
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

/// Returns the directory of the system's DLLs, into which drivers install theirs.
pub fn system_dir() -> Option<PathBuf> {
    // SAFETY: the buffer has the length that is passed.
    let dir = read_wide(|buffer| unsafe { GetSystemDirectoryW(buffer.as_mut_ptr(), buffer.len() as u32) });
    Some(dir.unwrap_or_else(|| r"C:\Windows\System32".into()).into())
}

/// Returns the directory that the program has added to the search for DLLs (`SetDllDirectory`).
pub fn added_dir() -> Option<PathBuf> {
    // SAFETY: the buffer has the length that is passed.
    let dir = read_wide(|buffer| unsafe { GetDllDirectoryW(buffer.len() as u32, buffer.as_mut_ptr()) });
    dir.map(PathBuf::from)
}

fn find_loaded(name: &OsStr, flags: u32) -> Option<Library> {
    let name = wide(name)?;
    let mut library = null_mut();
    // SAFETY: the name ends in NUL, and the answer has room.
    let is_found = unsafe { GetModuleHandleExW(flags, name.as_ptr(), &raw mut library) } != 0;
    (is_found && !library.is_null()).then_some(Library(library))
}

/// Whether the process has loaded the DLL that the system's loader finds for this name or path.
pub fn is_loaded(name: &Path) -> bool {
    find_loaded(name.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT).is_some()
}

/// Whether the loaded DLL at this path exports a symbol.
pub fn exports(path: &Path, name: &CStr) -> bool {
    let library = find_loaded(path.as_os_str(), GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
    library.is_some_and(|library| library.symbol(name).is_some())
}

/// Does nothing: nothing waits for the loader's lock here: while this thread has it, a new thread does not even start.
pub fn wait_for_lock() {}

fn message(code: u32) -> String {
    format!("error {code}: {}", text_of(code))
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
