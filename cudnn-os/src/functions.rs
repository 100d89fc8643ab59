//! Looks up functions in libraries by name.

use std::ffi::{CStr, c_void};

use crate::os::libraries::Library;

impl Library {
    /// Returns the function with this name, if the library exports it.
    ///
    /// # Safety
    /// `F` must be the type of the function that the library exports under this name.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        // SAFETY: guaranteed by the caller.
        self.symbol(name).map(|address| unsafe { pointer_as(address) })
    }
}

/// Reinterprets an address as a pointer of the requested type, such as a function pointer.
///
/// # Safety
/// `P` must be a pointer type that is valid for the memory or code at the address.
pub unsafe fn pointer_as<P: Copy>(address: *const c_void) -> P {
    const { assert!(size_of::<P>() == size_of::<*const c_void>(), "only a pointer type can contain an address") };
    // SAFETY: both types have the size of a pointer, and the caller guarantees the rest.
    unsafe { std::mem::transmute_copy(&address) }
}
