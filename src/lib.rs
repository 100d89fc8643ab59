//! The drop-in, `libcudnn.so.9` or `cudnn64_9.dll`: cuDNN's functions for programs in any language, with `cudnn-loader`
//! behind them.
//!
//! Each export is a load and a jump: to the loader's resolver on the first call, to cuDNN's function afterwards. On Linux
//! each has the symbol version of NVIDIA's (`cudnnCreate@@libcudnn.so.9`), so a program that was linked to one runs with
//! the other.
//!
//! This crate knows nothing of finding or loading cuDNN. docs/guide/drop-in.md explains how to put the drop-in in front
//! of a program.
#![allow(non_snake_case, reason = "these are cuDNN's function names")]
#![allow(deprecated, reason = "a drop-in has all of cuDNN's functions")]

mod c_abi;
pub mod preload;
pub mod private_exports;
pub mod shim_api;

use cudnn_loader::Function;
use cudnn_os::{tail_jump, versioned};

cudnn_os::start_of_slots!();

macro_rules! exports {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => { $($(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C: see cuDNN's documentation. An exception that the caller's callback throws passes through.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
            tail_jump!(Function::$variant as usize)
        }
        versioned!($name @@ "libcudnn.so.9");
    )*)* };
}

cudnn_sys::for_each_function!(exports);
