//! The drop-in `libcudnn.so.9`: cuDNN's functions for programs in any language, with `cudnn-loader` behind them.
//!
//! Each export is a load and a jump, to the loader's resolver at first and to cuDNN's own function from then on: with
//! link-time optimisation, as `cargo xtask dist` has it; without, it is a jump more. All have the version that NVIDIA's
//! have (`cudnnCreate@@libcudnn.so.9`), so that a program which was linked to the one runs with the other. This crate
//! knows nothing of finding or loading.
//!
//! `cargo xtask dist` makes what is installed; see README.md for how it is put in front of a program.
#![allow(non_snake_case, reason = "the functions' names are cuDNN's own")]

pub mod beyond;
pub mod preload;
pub mod undeclared;

/// Gives a function that is defined in this crate its version. In the same object file, or it would have no effect: see
/// `codegen-units` in Cargo.toml.
macro_rules! versioned {
    ($name:ident @@ $version:literal) => {
        std::arch::global_asm!(concat!(".symver ", stringify!($name), ",", stringify!($name), "@@", $version));
    };
}
pub(crate) use versioned;

macro_rules! exports {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => { $($(
        $(#[$doc])*
        ///
        /// # Safety
        /// As in C: see cuDNN's documentation. An exception that a callback of the caller's throws passes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returns {
            // SAFETY: the caller's obligation, passed on unchanged.
            unsafe { cudnn_loader::c_unwind::$name($($argument),*) }
        }
        versioned!($name @@ "libcudnn.so.9");
    )*)* };
}

cudnn_sys::for_each_function!(exports);
