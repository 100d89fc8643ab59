//! Lists loaded DLLs.

use std::ffi::{OsString, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::HMODULE;
use windows_sys::Win32::System::LibraryLoader::GetModuleHandleW;
use windows_sys::Win32::System::ProcessStatus::K32EnumProcessModules;
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::library::{Library, module_of, path_of};

pub struct ObjectEntry {
    pub path: PathBuf,
    // Always `None`, because DLLs do not contain search paths.
    pub run_path: Option<OsString>,
    module: Library,
}

impl ObjectEntry {
    pub fn library(&self) -> Library {
        self.module
    }

    pub fn contains(&self, address: *const c_void) -> bool {
        module_of(address) == Some(self.module.0)
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|file| file.eq_ignore_ascii_case(name))
    }

    // Always `false`, because dependencies are only in the file, and callers on Windows do not need them.
    pub fn needs(&self, _: &str) -> bool {
        false
    }

    pub fn is_program(&self) -> bool {
        // SAFETY: a null name refers to the program.
        self.module.0 == unsafe { GetModuleHandleW(std::ptr::null()) }
    }
}

pub fn read_list() -> Vec<ObjectEntry> {
    let entry = |module| Some(ObjectEntry { path: path_of(module)?, run_path: None, module: Library(module) });
    modules().into_iter().filter_map(entry).collect()
}

// Returns the number of loaded DLLs. This misses changes if equally many DLLs were loaded and unloaded.
pub fn load_count() -> u64 {
    modules().len() as u64
}

fn modules() -> Vec<HMODULE> {
    /// More DLLs than a process loads between two calls.
    const MORE: usize = 64;
    let mut modules: Vec<HMODULE> = vec![null_mut(); 256];
    loop {
        let (size, mut needed) = (size_of_val(modules.as_slice()) as u32, 0);
        // SAFETY: the buffer and the size match.
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

pub fn absolute(path: PathBuf) -> PathBuf {
    path
}
