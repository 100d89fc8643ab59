//! Exports the four functions that NVIDIA's shim exports without a public declaration.
//!
//! The exports are tail jumps, because the signatures are unknown. The first call resolves the symbol and preserves
//! every register that can contain an argument.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use cudnn_loader::Library;

use cudnn_os::{tail_jump, versioned};

macro_rules! private_exports {
    ($($library:ident $name:ident $symbol:literal;)*) => { $(
        /// An undeclared function of NVIDIA's shim; calls are forwarded to cuDNN unchanged.
        ///
        /// # Safety
        /// The signature and the requirements are known only to cuDNN's libraries.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            tail_jump!(sym $name::SLOT)
        }
        versioned!($name @@ "libcudnn.so.9");

        #[allow(non_snake_case, reason = "named as its function")]
        mod $name {
            use super::*;

            pub(super) static SLOT: AtomicPtr<c_void> = AtomicPtr::new(resolve_first_call as *const () as *mut c_void);

            #[unsafe(naked)]
            unsafe extern "C" fn resolve_first_call() {
                cudnn_os::save_arguments_and_jump!(resolve_first_call, resolve)
            }

            extern "C-unwind" fn resolve(_: u32) -> *const () {
                super::resolve(Library::$library, $symbol, &SLOT)
            }
        }
    )* };
}

private_exports! {
    Graph cudnnGetBackdoor c"cudnnGetBackdoor";
    Graph cudnnSetBackdoor c"cudnnSetBackdoor";
    Graph cudnnSetBackdoorEx c"cudnnSetBackdoorEx";
    Adv cudnnGetRNNDropoutLocationsInternal c"cudnnGetRNNDropoutLocationsInternal";
}

/// Returns the function's address, or the address of a function that returns the failure status.
fn resolve(library: Library, name: &CStr, slot: &AtomicPtr<c_void>) -> *const () {
    match cudnn_loader::__private::resolve_private_symbol(library, name) {
        Ok(address) => {
            slot.store(address.cast_mut(), Ordering::Release);
            address.cast()
        }
        Err(failing) => failing,
    }
}
