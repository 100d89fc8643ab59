//! Stores the functions that come next after a layer, and returns them with their types.

use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_sys::signatures::unwinding;

use super::function::Function;
use crate::layer::Host;

/// The functions that come next after a layer: cuDNN's, or those of a layer closer to cuDNN.
///
/// A table is usually a `static`. It has a method for each cuDNN function, which returns `None` until the function was
/// wrapped or [loaded](Next::load).
pub struct Next([AtomicPtr<c_void>; Function::NAMES.len()]);

impl Next {
    /// Creates an empty table.
    #[must_use]
    pub const fn new() -> Self {
        Next([const { AtomicPtr::new(null_mut()) }; Function::NAMES.len()])
    }

    /// Adds functions that the layer calls itself. Call this in [`Layer::begin`](crate::Layer::begin). It may load the
    /// sub-libraries of the functions. Functions that are missing in this version of cuDNN stay `None`.
    pub fn load(&self, host: Host, functions: &[Function]) {
        for function in functions {
            if let Some(address) = CString::new(function.name()).ok().and_then(|name| host.next(&name)) {
                self.set(*function, address);
            }
        }
    }

    /// Adds a function, unless the table contains one. Returns whether the table contains this address now.
    pub(super) fn set(&self, function: Function, next: *const c_void) -> bool {
        let cell = self.cell(function);
        let former = cell.compare_exchange(null_mut(), next.cast_mut(), Ordering::Release, Ordering::Acquire);
        former.map_or_else(|former| former.cast_const() == next, |_| true)
    }

    #[inline(always)]
    pub(super) fn get(&self, function: Function) -> *mut c_void {
        self.cell(function).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn cell(&self, function: Function) -> &AtomicPtr<c_void> {
        #[allow(clippy::indexing_slicing, reason = "there is one cell for each function")]
        &self.0[function as usize]
    }
}

impl Default for Next {
    fn default() -> Self {
        Next::new()
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Function::ALL.iter().filter(|function| !self.get(**function).is_null());
        f.debug_list().entries(known).finish()
    }
}

macro_rules! typed {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// The functions with their types.
        #[allow(non_snake_case, reason = "these are cuDNN's function names")]
        impl Next { $($(
            #[doc = concat!("Returns the next `", stringify!($name), "`.")]
            #[inline]
            #[must_use]
            pub fn $name(&self) -> Option<unwinding::$name> {
                // SAFETY: the address is null, or belongs to a function with this name, which has this type.
                unsafe { std::mem::transmute::<*mut c_void, Option<unwinding::$name>>(self.get(Function::$variant)) }
            }
        )*)* }
    };
}
cudnn_sys::for_each_function!(typed);
