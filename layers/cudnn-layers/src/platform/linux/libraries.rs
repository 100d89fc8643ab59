//! Libraries of others.

use std::ffi::{CStr, c_void};
use std::path::Path;

/// The names of the driver's library.
pub(crate) const DRIVER: &CStr = c"libcuda.so.1";

/// A library that is never closed.
#[derive(Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: a handle may be used in any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The library of this name, if the process has loaded it.
    pub(crate) fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: RTLD_NOLOAD runs no code; it only looks the library up.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library(handle))
    }

    /// Loads a library.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: the library's constructors run, as whoever named it expects.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Library(handle))
    }

    /// The address of a symbol.
    pub(crate) fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle was never closed.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}
