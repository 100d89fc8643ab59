//! Raw bindings to the public C API of cuDNN 9, one module per sub-library.
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
//! There is a module for each sub-library ([`graph`], [`ops`], [`cnn`], [`adv`], [`ext`]), and the crate root
//! re-exports all items. Without features, the crate links no libraries. Crates that load cuDNN at run time then use
//! the types, the constants and the function table ([`for_each_function!`]). For example, `cudnn-loader` provides the
//! same functions under the same names.
//!
//! # Linking
//! To call functions of this crate, enable the feature of the library that contains them:
//!
//! | feature | links | use it for |
//! | --- | --- | --- |
//! | `link-graph` | graph | functions of the module `graph` |
//! | `link-ops`, `link-cnn`, `link-adv`, `link-ext` | the sub-library, and graph if the program uses it | functions of both modules, and [`check!`] |
//! | `link-cudnn` | `libcudnn.so.9` or `cudnn64_9.dll` (NVIDIA's shim or a drop-in) | all functions |
//! | `buildtime-bindgen` | nothing | bindings generated from your own headers of 9.28.1 or newer; needs libclang |
//! | `warn-deprecated` | nothing | a compiler warning for each use of a deprecated name |
//!
//! The build script searches for cuDNN like `cudnn-loader` does at run time. These environment variables control it:
//!
//! | environment variable | meaning |
//! | --- | --- |
//! | `CUDNN_SYS_LIB_DIR` | the directory to link from; disables the search |
//! | `CUDNN_SYS_INCLUDE_DIR` | the directory of the headers for `buildtime-bindgen`; default: `include` next to `CUDNN_SYS_LIB_DIR`, `/usr/include`, `/usr/local/cuda/include` |
//! | `LIBCLANG_PATH` | the directory of libclang for `buildtime-bindgen` |
//! | `DOCS_RS` | if set, nothing is linked, so that `cargo doc` works with the `link-*` features but without cuDNN |
//!
//! **On Windows**, you can build without cuDNN or import libraries, on any machine and with either toolchain. The
//! declarations name the DLLs (`cudnn_graph64_9.dll` and so on, or `cudnn64_9.dll` for `link-cudnn`), and a program
//! imports only the DLLs that it calls. Windows searches the program's directory, the system directories, and `PATH`.
//! Keep cuDNN's DLLs in one directory, because they load further DLLs by name: copy all of them next to the program, or
//! add `DEP_CUDNN9_LIB_DIR` to `PATH`.
//!
//! **On Linux**, ld.so must find the libraries when your program starts. If they are not in a default directory, set a
//! run path in the `build.rs` of the program, which must depend directly on `cudnn-sys`:
//!
//! ```no_run
//! // In `main` of build.rs:
//! if let Ok(dir) = std::env::var("DEP_CUDNN9_LIB_DIR") {
//!     println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{dir}");
//! }
//! ```
//!
//! Build scripts of direct dependents also receive these variables:
//!
//! | variable | value |
//! | --- | --- |
//! | `DEP_CUDNN9_VERSION` | the release of the bindings |
//! | `DEP_CUDNN9_LIB_DIR` | the directory of the libraries |
//! | `DEP_CUDNN9_LIB_VERSION` | the release of the libraries |
//! | `DEP_CUDNN9_INCLUDE` | the directory of the headers, if there are any |
//!
//! For Windows targets, the last three are unset if no cuDNN was found. When cross-compiling, only `CUDNN_SYS_LIB_DIR`
//! can provide one.
//!
//! # Enums
//! A C enum is a transparent newtype around an integer. Unknown values from a newer cuDNN are therefore not undefined
//! behavior:
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
//! Enums and structs implement `Default` as all zeros, like `= {0}` in C:
//!
//! ```
//! let found = [cudnn_sys::cudnnConvolutionFwdAlgoPerf_t::default(); 8];
//! # assert!(found[0].status.is_success() && found[0].memory == 0);
//! ```
//!
//! # Safety
//! All functions are C functions. Pointers must be valid for the accesses that cuDNN's documentation describes, for as
//! long as it requires. Handles and descriptors must be live and of the right kind.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, reason = "these are cuDNN's names")]
#![cfg_attr(feature = "warn-deprecated", allow(deprecated, reason = "deprecated functions take deprecated types"))]

extern crate alloc;

#[doc(hidden)]
pub mod devices;
mod error;
mod open_enum;
mod status;

pub use error::Error;

/// Includes a generated file: the checked-in one, or the one that the build script has generated from your headers.
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

/// Declares a function. Adds the link features for rustdoc, and `#[deprecated]` if cuDNN's headers mark the function as
/// deprecated and the feature `warn-deprecated` is enabled.
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

/// Declares the functions of a library. On Windows, the declarations name the DLL, which makes an import library
/// unnecessary. The DLL is the sub-library, or NVIDIA's shim if only the shim is linked.
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
        since($($since:literal),*) deprecated($deprecated:tt)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// The types and constants without the functions, for crates that define the functions themselves.
        pub mod types {
            use crate::open_enum::{item, open_enum};

            /// The CUDA types in cuDNN's headers. Streams and graphs are opaque pointers, so you can cast them from
            /// your CUDA crate.
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
                        #[doc = concat!("`libcudnn_", stringify!($library), "`, since cuDNN ", $($since, ".",)* " ", $doc)]
                        fn $name($($argument: $type),*) -> $returns;
                    }
                )* } }
            }
            pub use $library::*;
        )*

        /// Function pointer types for crates that resolve cuDNN's functions at run time. An alias is named like the
        /// function, and a wrong signature fails to compile:
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
        #[allow(deprecated, reason = "deprecated functions also have types")]
        pub mod signatures {
            $($(
                #[doc = concat!("The type of `", stringify!($name), "`.")]
                pub type $name = unsafe extern "C" fn($($argument: $type),*) -> $returns;
            )*)*

            /// The same types with an ABI that allows unwinding, because callbacks of the program may throw through
            /// cuDNN.
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

/// Exports only cuDNN's functions, types and constants, for `use cudnn_sys::api::*`. `cudnn_loader::api` has the same
/// names.
pub mod api {
    pub use crate::{adv, cnn, cuda, cuda::*, ext, graph, ops};
    #[allow(
        unused_imports,
        unreachable_pub,
        reason = "bindings of an older release have nothing for a newer library"
    )]
    pub use crate::{adv::*, cnn::*, ext::*, graph::*, ops::*};
}
