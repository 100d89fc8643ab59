//! Opening a library in this process, for a child process that exists to run it.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Opens a library as cuDNN does; else ld.so's message.
///
/// # Safety
/// This runs the library's code.
pub(crate) unsafe fn open_library(file: &Path) -> Result<*mut c_void, String> {
    let name = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name ends with a zero byte. The caller answers for the library's code.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: no other thread of this process opens libraries.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return Err("unknown error".to_owned());
    }
    // SAFETY: ld.so's message ends with a zero byte, and lives until the next call.
    Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

/// The address of a symbol, or null.
///
/// # Safety
/// The handle must be that of an open library.
pub(crate) unsafe fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte; the caller answers for the handle.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}
