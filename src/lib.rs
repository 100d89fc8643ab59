//! The drop-in library, `libcudnn.so.9` or `cudnn64_9.dll`, which exports cuDNN's functions and resolves them through
//! `cudnn-loader`.
//!
//! An exported function is a load and a jump. The jump leads to the loader's resolver on the first call and to cuDNN's
//! function afterwards. On Linux, the exports have the same symbol versions as NVIDIA's (`cudnnCreate@@libcudnn.so.9`),
//! so programs linked to either library run with the other.
//!
//! All code that finds and loads cuDNN is in `cudnn-loader`. See docs/guide/drop-in.md for how to install the drop-in
//! for a program.
#![allow(non_snake_case, reason = "these are cuDNN's function names")]
#![allow(deprecated, reason = "a drop-in exports all functions, including deprecated ones")]

mod c_abi;
pub mod preload;
pub mod private_exports;
pub mod shim_api;

use cudnn_loader::Function;
use cudnn_os::{tail_jump, versioned};

cudnn_os::start_of_slots!();
cudnn_os::without_backtraces!();

macro_rules! exports {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => { $($(
        #[doc = concat!("`libcudnn_", stringify!($library), "`, since cuDNN ", $($since, ".",)* " ", $doc)]
        ///
        /// # Safety
        /// As in C: see cuDNN's documentation. Exceptions thrown by the caller's callback pass through.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
            tail_jump!(Function::$variant as usize)
        }
        versioned!($name @@ "libcudnn.so.9");
    )*)* };
}

cudnn_sys::for_each_function!(exports);
