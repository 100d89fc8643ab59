//! Keeps this DLL loaded. No code runs at load time, because the loader is still busy during `DllMain`.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};

// Prevents this DLL from being unloaded. Call this before using thread-local variables, because each unloaded DLL leaks
// thread-local storage indexes, and a process has only 1,088.
pub fn keep_loaded() {
    static IS_KEPT: AtomicBool = AtomicBool::new(false);
    if !IS_KEPT.swap(true, Ordering::Relaxed) {
        let mut module = null_mut();
        let here = keep_loaded as *const c_void;
        let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
        // SAFETY: the address is this function's, and the output pointer is valid.
        unsafe { GetModuleHandleExW(flags, here.cast(), &raw mut module) };
    }
}

/// Puts the table of slots into a section. The drop-in defines the symbol for the start, because linkers sort the parts
/// of a section by the suffix after `$`.
#[doc(hidden)]
#[macro_export]
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = ".slots$m")]
        $($item)*
    };
}

/// Defines the static without calling the function.
#[doc(hidden)]
#[macro_export]
macro_rules! at_load {
    ($name:ident: $function:path) => {
        #[allow(dead_code, reason = "other systems call it")]
        static $name: extern "C" fn() = $function;
    };
}
