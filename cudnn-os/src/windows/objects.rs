//! The list of loaded DLLs.

use std::ffi::{OsString, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, GetModuleFileNameW,
    GetModuleHandleExW, GetModuleHandleW,
};
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::wide::read_wide;

/// The program, or one loaded DLL.
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// The load address.
    pub base: usize,
    /// Files state no directories to search.
    pub run_path: Option<OsString>,
}

impl Entry {
    /// Whether the system's loader takes this DLL for the one of this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|file| file.eq_ignore_ascii_case(name))
    }

    /// Returns `false`: only a file's import table states it, and nothing asks on this system.
    pub fn needs(&self, _: &str) -> bool {
        false
    }

    /// Whether this is the program itself.
    pub fn is_program(&self) -> bool {
        // SAFETY: no name stands for the program.
        self.base == unsafe { GetModuleHandleW(std::ptr::null()) }.addr()
    }
}

/// Returns the list now, in loading order.
pub fn read_list() -> Vec<Entry> {
    let entry = |module: HMODULE| {
        // SAFETY: the buffer has the length that is passed. A DLL that is unloaded meanwhile has no name.
        let path = read_wide(|buffer| unsafe { GetModuleFileNameW(module, buffer.as_mut_ptr(), buffer.len() as u32) })?;
        Some(Entry { path: path.into(), base: module.addr(), run_path: None })
    };
    modules().into_iter().filter_map(entry).collect()
}

/// Returns the number of DLLs, which stays the same if as many are freed.
pub fn load_count() -> u64 {
    modules().len() as u64
}

fn modules() -> Vec<HMODULE> {
    /// More than a process loads between two looks.
    const MORE: usize = 64;
    let mut modules: Vec<HMODULE> = vec![null_mut(); 256];
    loop {
        let (size, mut needed) = (size_of_val(modules.as_slice()) as u32, 0);
        // SAFETY: the buffer has the size that is passed.
        let has_listed =
            unsafe { K32EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), size, &raw mut needed) } != 0;
        let count = if has_listed { needed as usize / size_of::<HMODULE>() } else { 0 };
        if count <= modules.len() {
            modules.truncate(count);
            return modules;
        }
        modules.resize(count + MORE, null_mut());
    }
}

/// Returns the load address of the program or DLL that contains this code.
pub fn containing_base() -> Option<usize> {
    let mut module = null_mut();
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    let here = containing_base as *const c_void;
    // SAFETY: the address is this function's, and the answer has room.
    let is_found = unsafe { GetModuleHandleExW(flags, here.cast(), &raw mut module) } != 0;
    is_found.then(|| module.addr())
}

/// Returns the path, which is absolute in the list.
pub fn absolute(path: PathBuf) -> PathBuf {
    path
}
