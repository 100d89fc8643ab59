//! Functions of libraries by their names.

use std::ffi::{CStr, c_void};

use super::libraries::Library;

/// A function of a library, if it exports the name.
///
/// # Safety
/// `F` is the type of the library's function of this name.
pub(crate) unsafe fn function<F: Copy>(library: Library, name: &CStr) -> Option<F> {
    // SAFETY: the caller's obligation, passed on.
    library.symbol(name).map(|address| unsafe { function_at(address) })
}

/// The function at an address.
///
/// # Safety
/// `F` is its type.
pub(crate) unsafe fn function_at<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: both are addresses, and the rest is the caller's obligation.
    unsafe { std::mem::transmute_copy(&address) }
}
