//! Opening a library in this process, for a child process that exists to run it.

use std::ffi::{CStr, c_void};
use std::io::Error;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;

use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LOAD_WITH_ALTERED_SEARCH_PATH, LoadLibraryExW,
};

/// Opens a library by its path, or the driver's by its name; else the system's message.
///
/// # Safety
/// This runs the library's code.
pub(crate) unsafe fn open_library(file: &Path) -> Result<*mut c_void, String> {
    let name: Vec<u16> = file.as_os_str().encode_wide().chain([0]).collect();
    let flags = if file.is_absolute() { LOAD_WITH_ALTERED_SEARCH_PATH } else { LOAD_LIBRARY_SEARCH_SYSTEM32 };
    // SAFETY: the name ends with a zero. The caller answers for the library's code.
    let handle = unsafe { LoadLibraryExW(name.as_ptr(), std::ptr::null_mut(), flags) };
    if handle.is_null() { Err(Error::last_os_error().to_string()) } else { Ok(handle) }
}

/// The address of a symbol, or null.
///
/// # Safety
/// The handle must be that of an open library.
pub(crate) unsafe fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; the caller answers for the handle.
    let function = unsafe { GetProcAddress(handle, name.as_ptr().cast()) };
    function.map_or(std::ptr::null_mut(), |function| function as *mut c_void)
}
