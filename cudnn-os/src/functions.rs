//! Functions of libraries by their names.

use std::ffi::{CStr, c_void};

use crate::os::libraries::Library;

impl Library {
    /// Returns the function of this name, if the library exports it.
    ///
    /// # Safety
    /// `F` is the type of the library's function of this name.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        // SAFETY: the caller's obligation, passed on.
        self.symbol(name).map(|address| unsafe { pointer_as(address) })
    }
}

/// Returns an address as a pointer of the type that the caller names, such as a function pointer.
///
/// # Safety
/// `P` is a pointer type that fits what the address points to.
pub unsafe fn pointer_as<P: Copy>(address: *const c_void) -> P {
    const { assert!(size_of::<P>() == size_of::<*const c_void>(), "only a pointer type can contain an address") };
    // SAFETY: both are one pointer in size; the rest is the caller's obligation.
    unsafe { std::mem::transmute_copy(&address) }
}
