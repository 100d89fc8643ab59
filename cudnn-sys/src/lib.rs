//! Raw bindings of the public C API of cuDNN 9, one module per sub-library.
//!
//! ```no_run
//! use cudnn_sys as cudnn;
//!
//! # fn main() -> Result<(), cudnn::Error> {
//! let mut handle = std::ptr::null_mut();
//! // SAFETY: `handle` is valid for writes, and is destroyed once.
//! unsafe {
//!     cudnn::check!(cudnn::cudnnCreate(&mut handle))?;
//!     println!("cuDNN {}", cudnn::cudnnGetVersion());
//!     cudnn::check!(cudnn::cudnnDestroy(handle))?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Each sub-library has a module ([`graph`], [`ops`], [`cnn`], [`adv`], [`ext`]); the crate root re-exports all of
//! them. Without features the crate links nothing: crates that load cuDNN at run time use the types, the constants and
//! the function table ([`for_each_function!`]). `cudnn-loader` does, and has the same functions under the same names.
//!
//! # Linking
//! To call the functions of this crate, enable the feature of the library that has them:
//!
//! | feature | links | for |
//! | --- | --- | --- |
//! | `link-graph` | graph | the functions of its module |
//! | `link-ops`, `link-cnn`, `link-adv`, `link-ext` | that sub-library, and graph if the program uses it | the functions of both modules, and [`check!`] |
//! | `link-cudnn` | `libcudnn.so.9` or `cudnn64_9.dll`, NVIDIA's shim or a drop-in for it | all functions |
//! | `buildtime-bindgen` | nothing | bindings generated from your own headers; needs libclang |
//! | `warn-deprecated` | nothing | a warning at each use of a name that cuDNN's headers mark as deprecated |
//!
//! The build script finds cuDNN as `cudnn-loader` does at run time. These environment variables control it:
//!
//! | environment variable | meaning |
//! | --- | --- |
//! | `CUDNN_SYS_LIB_DIR` | the directory to link from; disables the search |
//! | `CUDNN_SYS_INCLUDE_DIR` | the directory of the headers for `buildtime-bindgen`; default: `include` beside `CUDNN_SYS_LIB_DIR`, `/usr/include`, `/usr/local/cuda/include` |
//! | `LIBCLANG_PATH` | the directory of libclang for `buildtime-bindgen` |
//!
//! **On Windows** nothing needs to be installed to build, on any machine and with either toolchain: the declarations name
//! the DLLs (`cudnn_graph64_9.dll` and so on; `cudnn64_9.dll` for `link-cudnn`), and no import library is used. The table
//! of a program's imports has only the DLLs whose functions it calls. Windows looks for them beside the program, then in
//! the system's directories, then in `PATH`. cuDNN's DLLs load each other by bare name, so all of them belong into one
//! such directory: copy them beside the program, or add `DEP_CUDNN9_LIB_DIR` to `PATH`.
//!
//! **On Linux** linking does not show ld.so where the library is when your program starts. If it is not in a default
//! directory, set a run path in the `build.rs` of the program, which must depend on `cudnn-sys` directly:
//!
//! ```no_run
//! // In `main` of build.rs:
//! if let Ok(dir) = std::env::var("DEP_CUDNN9_LIB_DIR") {
//!     println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{dir}");
//! }
//! ```
//!
//! Build scripts of direct dependents also get `DEP_CUDNN9_VERSION` (the release of the bindings),
//! `DEP_CUDNN9_LIB_DIR` (the directory of the libraries), `DEP_CUDNN9_LIB_VERSION` (their release) and
//! `DEP_CUDNN9_INCLUDE` (their headers, if there are any). For Windows the last three are unset if no cuDNN was found; on
//! another machine only `CUDNN_SYS_LIB_DIR` can name one.
//!
//! # Enums
//! A C enum is a transparent newtype around its integer, so an unknown value from a newer cuDNN is not undefined
//! behaviour:
//!
//! ```
//! use cudnn_sys::cudnnStatus_t;
//! let status = cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
//! assert_eq!(format!("{status:?}"), "CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002)");
//! assert_eq!(status.category(), cudnnStatus_t::CUDNN_STATUS_BAD_PARAM);
//! assert_eq!(u32::from(status), 2002);
//! assert_eq!(format!("{:?}", cudnnStatus_t(7777)), "cudnnStatus_t (7777)");
//! ```
//!
//! Enums and structs implement `Default`, which is all zeros, as `= {0}` in C:
//!
//! ```
//! let found = [cudnn_sys::cudnnConvolutionFwdAlgoPerf_t::default(); 8];
//! # assert!(found[0].status.is_success() && found[0].memory == 0);
//! ```
//!
//! # Safety
//! Every function is C's: each pointer must be valid for what the function does with it, for as long as cuDNN's
//! documentation requires, and handles and descriptors must be live and of the right kind.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, reason = "these are cuDNN's names")]
#![cfg_attr(feature = "warn-deprecated", allow(deprecated, reason = "deprecated functions take deprecated types"))]
#![cfg_attr(
    feature = "buildtime-bindgen",
    allow(unused_imports, unreachable_pub, reason = "the headers of an older release lack newer libraries")
)]

extern crate alloc;

pub mod devices;
mod error;
mod open_enum;
mod status;

pub use error::Error;

/// Includes a generated file: the one checked in, or the one that the build script generated from your headers.
macro_rules! generated {
    ($module:ident) => {
        #[cfg(not(feature = "buildtime-bindgen"))]
        include!(concat!("generated/", stringify!($module), ".rs"));
        #[cfg(feature = "buildtime-bindgen")]
        include!(concat!(env!("OUT_DIR"), "/", stringify!($module), ".rs"));
    };
}

mod table {
    generated!(functions);
}

/// Declares a function, with its link features for rustdoc, and with `#[deprecated]` if cuDNN's headers mark it so and the
/// program asks for the warnings.
macro_rules! foreign_function {
    (graph $($rest:tt)*) => { foreign_function! { @ "link-graph" $($rest)* } };
    (ops $($rest:tt)*) => { foreign_function! { @ "link-ops" $($rest)* } };
    (cnn $($rest:tt)*) => { foreign_function! { @ "link-cnn" $($rest)* } };
    (adv $($rest:tt)*) => { foreign_function! { @ "link-adv" $($rest)* } };
    (ext $($rest:tt)*) => { foreign_function! { @ "link-ext" $($rest)* } };
    (@ $feature:literal true $($rest:tt)*) => {
        foreign_function! {
            @ $feature
            #[cfg_attr(
                feature = "warn-deprecated",
                deprecated(note = "cuDNN's headers mark this function as deprecated")
            )]
            $($rest)*
        }
    };
    (@ $feature:literal false $($rest:tt)*) => { foreign_function! { @ $feature $($rest)* } };
    (@ $feature:literal $(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $returns:ty;) => {
        $(#[$attribute])*
        ///
        /// # Safety
        /// See the crate's documentation.
        #[cfg_attr(docsrs, doc(cfg(any(feature = "link-cudnn", feature = $feature))))]
        pub fn $name($($argument: $type),*) -> $returns;
    };
}

/// Declares the functions of a library. On Windows the declarations name the DLL that has them, so that the linker needs
/// no import library: the sub-library, or NVIDIA's shim if only that is linked.
macro_rules! foreign_block {
    (graph $functions:tt) => { foreign_block! { @ "link-graph" "cudnn_graph64_9" $functions } };
    (ops $functions:tt) => { foreign_block! { @ "link-ops" "cudnn_ops64_9" $functions } };
    (cnn $functions:tt) => { foreign_block! { @ "link-cnn" "cudnn_cnn64_9" $functions } };
    (adv $functions:tt) => { foreign_block! { @ "link-adv" "cudnn_adv64_9" $functions } };
    (ext $functions:tt) => { foreign_block! { @ "link-ext" "cudnn_ext64_9" $functions } };
    (@ $feature:literal $dll:literal { $($function:tt)* }) => {
        #[cfg_attr(all(windows, feature = $feature), link(name = $dll, kind = "raw-dylib"))]
        #[cfg_attr(
            all(windows, feature = "link-cudnn", not(feature = $feature)),
            link(name = "cudnn64_9", kind = "raw-dylib")
        )]
        unsafe extern "C" { $($function)* }
    };
}

macro_rules! declare {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:tt)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// The types and constants without the functions, for crates that define the functions themselves.
        pub mod types {
            use crate::open_enum::open_enum;

            /// The CUDA types that cuDNN's headers use. Streams and graphs are opaque pointers: cast those of your CUDA
            /// crate.
            pub mod cuda {
                generated!(cuda);
            }
            pub use cuda::*;
            $(
                #[doc = concat!("Types and constants of `libcudnn_", stringify!($library), "`.")]
                pub mod $library {
                    generated!($library);
                }
                pub use $library::*;
            )*
        }
        pub use types::cuda;
        pub use types::cuda::*;
        $(
            #[doc = concat!("Types, constants and functions of `libcudnn_", stringify!($library), "`.")]
            pub mod $library {
                pub use crate::types::$library::*;

                foreign_block! { $library { $(
                    foreign_function! {
                        $library $deprecated
                        $(#[$doc])*
                        fn $name($($argument: $type),*) -> $returns;
                    }
                )* } }
            }
            pub use $library::*;
        )*

        /// The types of cuDNN's functions, for crates that look the functions up at run time. An alias has the name of its
        /// function, so a signature that differs from cuDNN's does not compile:
        ///
        /// ```
        /// use cudnn_sys::{cudnnHandle_t, cudnnStatus_t, signatures};
        ///
        /// unsafe extern "C" fn destroy(_: cudnnHandle_t) -> cudnnStatus_t {
        ///     cudnnStatus_t::CUDNN_STATUS_SUCCESS
        /// }
        /// let function: signatures::cudnnDestroy = destroy;
        /// ```
        ///
        /// ```compile_fail,E0308
        /// # use cudnn_sys::{cudnnBackendDescriptor_t, cudnnHandle_t, cudnnStatus_t, signatures};
        /// unsafe extern "C" fn without_the_variant_pack(
        ///     _: cudnnHandle_t,
        ///     _: cudnnBackendDescriptor_t,
        ///     _: *mut usize,
        /// ) -> cudnnStatus_t {
        ///     cudnnStatus_t::CUDNN_STATUS_SUCCESS
        /// }
        /// let function: signatures::cudnnGetExecutionPlanWorkspaceSize = without_the_variant_pack;
        /// ```
        #[allow(deprecated, reason = "deprecated functions have types, too")]
        pub mod signatures {
            $($(
                #[doc = concat!("The type of `", stringify!($name), "`.")]
                pub type $name = unsafe extern "C" fn($($argument: $type),*) -> $returns;
            )*)*

            /// The same types for callers who let exceptions pass: a callback of the program may throw through cuDNN.
            pub mod unwinding {
                $($(
                    #[doc = concat!("The type of `", stringify!($name), "`.")]
                    pub type $name = unsafe extern "C-unwind" fn($($argument: $type),*) -> $returns;
                )*)*
            }
        }
    };
}
for_each_function!(declare);

/// cuDNN's functions, types and constants, and nothing else: `use cudnn_sys::api::*`. `cudnn_loader::api` has the same names.
pub mod api {
    pub use crate::{adv, cnn, cuda, cuda::*, ext, graph, ops};
    #[allow(
        unused_imports,
        unreachable_pub,
        reason = "bindings of an older release have nothing for a newer library"
    )]
    pub use crate::{adv::*, cnn::*, ext::*, graph::*, ops::*};
}
