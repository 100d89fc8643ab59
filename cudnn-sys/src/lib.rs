//! Raw bindings of the whole public C API of cuDNN 9, by sub-library.
//!
//! Each sub-library has a module ([`graph`], [`ops`], [`cnn`], [`adv`], [`ext`]), and everything is re-exported here.
//! By default nothing is linked: the types, the constants and the function table ([`for_each_function!`]) serve
//! crates that load cuDNN at run time, such as `cudnn-loader`, which has the same functions under the same names.
//! To call the functions of this crate, turn on the feature of the library to link:
//!
//! | feature | links | serves |
//! | --- | --- | --- |
//! | `link-graph`, `link-ops`, `link-cnn`, `link-adv`, `link-ext` | that sub-library | the functions of its module |
//! | `link-cudnn` | `libcudnn.so.9`, NVIDIA's shim or a drop-in for it | all functions |
//! | `buildtime-bindgen` | nothing | bindings made from your own headers; needs libclang |
//!
//! A program that names several of them needs each (with `--as-needed`, the usual default of Linux toolchains, each of
//! which it calls a function).
//!
//! | environment variable, at build time | says |
//! | --- | --- |
//! | `CUDNN_SYS_LIB_DIR` | the folder to link from; without it, the search of `cudnn-probe` decides, as at run time |
//! | `CUDNN_SYS_INCLUDE_DIR` | the folder of the headers, for `buildtime-bindgen`; without it, `../include` beside that of the libraries, `/usr/include`, `/usr/local/cuda/include` |
//! | `LIBCLANG_PATH` | the folder that holds `libclang.so`, for `buildtime-bindgen` |
//!
//! A crate that depends on this one finds, in its build script's environment, `DEP_CUDNN9_VERSION` (of the bindings);
//! when something is linked, `DEP_CUDNN9_LIB_DIR` and `DEP_CUDNN9_LIB_VERSION`; and where headers were found with it,
//! `DEP_CUDNN9_INCLUDE`.
//!
//! # Safety
//! Every function here is C's: each pointer must be valid for what the function does with it, for as long as cuDNN's
//! documentation says, and handles and descriptors must be live and of the right kind.
//!
//! # Enums
//! A C enum is a transparent newtype around its integer, so a value that a newer cuDNN brings is never undefined
//! behaviour:
//!
//! ```
//! use cudnn_sys::cudnnStatus_t;
//! let status = cudnnStatus_t::CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
//! assert_eq!(format!("{status:?}"), "CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002)");
//! assert_eq!(status.category(), cudnnStatus_t::CUDNN_STATUS_BAD_PARAM);
//! assert_eq!(format!("{:?}", cudnnStatus_t(7777)), "cudnnStatus_t (7777)");
//! ```
#![no_std]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, reason = "the names are cuDNN's own")]
#![cfg_attr(
    feature = "buildtime-bindgen",
    allow(unused_imports, unreachable_pub, reason = "headers of an older release have nothing for a newer library")
)]

extern crate alloc;

mod error;
mod open_enum;
mod status;

pub use error::Error;

/// Includes one generated file: the one checked in, or the one that the build script made from your headers.
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

macro_rules! declare {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// The types and constants alone, without the functions: for crates that bring functions of their own.
        pub mod types {
            use crate::open_enum::open_enum;

            /// The few types of CUDA's that cuDNN's headers name. Streams and graphs are opaque pointers, so those of
            /// any CUDA crate can be cast to them.
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

                unsafe extern "C" { $(
                    $(#[$doc])*
                    ///
                    /// # Safety
                    /// See the crate's documentation.
                    pub fn $name($($argument: $type),*) -> $returns;
                )* }
            }
            pub use $library::*;
        )*
    };
}
for_each_function!(declare);
