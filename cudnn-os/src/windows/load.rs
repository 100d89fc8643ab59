//! What happens when the system loads the program or DLL that contains this code: nothing, since the system's loader is
//! in the middle of its work then (`DllMain`).

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};

/// Makes the system keep the DLL that contains this code from now on. To be called before this code uses a variable of a
/// thread: a DLL that is freed takes its numbers of such variables along, of which a process has 1,088.
pub fn keep_loaded() {
    static IS_KEPT: AtomicBool = AtomicBool::new(false);
    if !IS_KEPT.swap(true, Ordering::Relaxed) {
        let mut module = null_mut();
        let here = keep_loaded as *const c_void;
        let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
        // SAFETY: the address is this function's, and the answer has room.
        unsafe { GetModuleHandleExW(flags, here.cast(), &raw mut module) };
    }
}

/// Puts the table of slots into a section, to whose start the drop-in adds a symbol: linkers sort by what follows the `$`.
#[doc(hidden)]
#[macro_export]
macro_rules! in_section_of_slots {
    ($($item:tt)*) => {
        #[unsafe(link_section = ".slots$m")]
        $($item)*
    };
}
