//! Looks up exports of a loaded DLL.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW,
    GetModuleHandleExW, GetProcAddress,
};

use super::wide::read_wide;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(pub(super) HMODULE);

// SAFETY: GetProcAddress accepts the handle on any thread, and the handle is never freed.
unsafe impl Send for Library {}
// SAFETY: GetProcAddress accepts the handle on any thread, and the handle is never freed.
unsafe impl Sync for Library {}

impl Library {
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is valid, and the name is NUL-terminated.
        let address = unsafe { GetProcAddress(self.0, name.as_ptr().cast()) };
        address.map(|function| function as *mut c_void)
    }

    // A hook, or the DLL itself, may forward a name to another DLL.
    pub fn other_owner(self, address: *const c_void) -> Option<PathBuf> {
        let owner = module_of(address).filter(|owner| *owner != self.0)?;
        path_of(owner)
    }
}

pub(super) fn module_of(address: *const c_void) -> Option<HMODULE> {
    let mut module = null_mut();
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    // SAFETY: the output pointer is valid; the system checks the address.
    let is_found = unsafe { GetModuleHandleExW(flags, address.cast(), &raw mut module) } != 0;
    is_found.then_some(module)
}

/// Returns the file of a loaded DLL. Fails for a DLL that was unloaded in the meantime.
pub(super) fn path_of(module: HMODULE) -> Option<PathBuf> {
    // SAFETY: the buffer and the length match.
    read_wide(|buffer| unsafe { GetModuleFileNameW(module, buffer.as_mut_ptr(), buffer.len() as u32) })
        .map(PathBuf::from)
}
