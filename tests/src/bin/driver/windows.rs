//! Implements the driver's commands on Windows.

use std::collections::BTreeSet;
use std::ffi::c_void;

type Module = *mut c_void;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetCurrentProcess() -> *mut c_void;
    fn K32EnumProcessModules(process: *mut c_void, modules: *mut Module, size: u32, needed: *mut u32) -> i32;
    fn GetModuleFileNameW(module: Module, name: *mut u16, size: u32) -> u32;
}

/// Returns `false`, because Windows has no additional commands.
pub(crate) fn perform(_: &str, _: &str) -> bool {
    false
}

pub(crate) fn set_time_limit(seconds: u32) {
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(seconds.into()));
        std::process::abort();
    });
}

pub(crate) fn mapped_files() -> BTreeSet<String> {
    let mut modules = [std::ptr::null_mut(); 1024];
    let mut size = 0;
    // SAFETY: the buffer has this size.
    unsafe {
        K32EnumProcessModules(GetCurrentProcess(), modules.as_mut_ptr(), size_of_val(&modules) as u32, &raw mut size)
    };
    let count = (size as usize / size_of::<Module>()).min(modules.len());
    let name = |module: &Module| {
        let mut name = [0; 1024];
        // SAFETY: the process never unloads a module, and the buffer has this length.
        let length = unsafe { GetModuleFileNameW(*module, name.as_mut_ptr(), name.len() as u32) };
        String::from_utf16_lossy(&name[..length as usize])
    };
    modules[..count].iter().map(name).filter(|file| file.contains("cudnn") && !file.ends_with(".exe")).collect()
}

pub(crate) fn is_listed(name: &str) -> bool {
    mapped_files().iter().any(|file| file.ends_with(name))
}
