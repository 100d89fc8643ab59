//! Rust bindings for all of cuDNN 9 that load the library at run time, without linking to it.
//!
//! ```no_run
//! use cudnn_loader::{self as cudnn, Options, Version};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Optional: select an installation that meets your requirements, and report why if there is none.
//!     let installation = Options::new().minimum_version(Version::new(9, 1, 0)).load()?;
//!     println!("cuDNN {} in {}", installation.version, installation.dir.display());
//!
//!     // Every cuDNN function is available under its own name.
//!     let mut handle = std::ptr::null_mut();
//!     unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
//!     unsafe { cudnn::check!(cudnn::cudnnDestroy(handle)) }?;
//!     Ok(())
//! }
//! ```
//!
//! The first call of a function selects an installation and loads the sub-library that exports the function. After
//! that, a call is a load and a jump. The crate `cudnn-sys` provides the same names and signatures but links cuDNN at
//! build time. You can switch between them with `use cudnn_loader as cudnn;` and `use cudnn_sys as cudnn;`. For a glob
//! import, use [`api`], which contains only cuDNN's own names.
//!
//! # If cuDNN cannot be loaded
//! A call never aborts, panics or unwinds. It returns an error that a program can handle:
//!
//! - Functions that return a status return the status for the failure ([`LoadError::status`]).
//! - Version functions return 0.
//! - [`cudnnGetErrorString`] works without cuDNN.
//! - [`cudnnGetLastErrorString`] returns the full report: the reason, the fix, the message of the system's loader, and
//!   every directory that was searched.
//!
//! ```
//! use cudnn_loader::{self as cudnn, cudnnStatus_t};
//! use std::ffi::CStr;
//!
//! // Works on machines without cuDNN or a GPU.
//! let name = unsafe { CStr::from_ptr(cudnn::cudnnGetErrorString(cudnnStatus_t::CUDNN_STATUS_BAD_PARAM)) };
//! assert_eq!(name, c"CUDNN_STATUS_BAD_PARAM");
//! ```
//!
//! To get the error as a value, resolve the function before you call it:
//!
//! ```no_run
//! use cudnn_loader::Function;
//!
//! if let Err(error) = Function::CudnnConvolutionForward.resolve() {
//!     eprintln!("{error:#}\nRunning on the CPU.");
//! }
//! ```
//!
//! # One installation per process
//! The first use selects one directory, and all cuDNN libraries are loaded from it by absolute path. Libraries are
//! never unloaded. If a framework has already loaded cuDNN, the loader uses that copy.
//!
//! The selection is global to the process, and even a test cannot replace it. cuDNN itself has global state, and two
//! copies would break each other.
//!
//! # Threads, constructors and fork
//! Any thread may make the first call of a function. One thread loads a library while the others wait for it. They wait
//! at most one second and then load it themselves. A first call in a static constructor, which runs under ld.so's lock,
//! is therefore safe from deadlocks with first calls in other threads.
//!
//! Fork before the first call or after it returns, because a child that is forked while another thread runs `dlopen`
//! may inherit a half-initialized library. A child inherits the loaded libraries and never waits for threads of the
//! parent. CUDA and cuDNN impose further limits on forked children. Thread cancellation (`pthread_cancel`) during a
//! first call takes effect after the call.
//!
//! # Platforms
//! Linux and Windows are supported, for which cuDNN exists. A program for more systems depends on this crate only there:
//! `[target.'cfg(any(target_os = "linux", windows))'.dependencies]`.
//!
//! On Windows, the same rules apply to the system's loader and to `DllMain`. Once used, the program or DLL that
//! contains this crate is never unloaded. An exit does not wait for preloads, because Windows terminates all other
//! threads first.
//!
//! # Layers
//! A layer intercepts calls between the program and cuDNN, and can observe or replace them: see [`layers`]. Layers run
//! only if the program adds them or the environment variable `CUDNN_LAYERS` lists them.
//!
//! # Features
//! - `log` and `tracing` add `to_log` and `to_tracing` to [`logging`], which forward cuDNN's log to these crates.
//! - `warn-deprecated` enables compiler warnings for names that cuDNN's headers mark as deprecated.
//!
//! # Safety
//! The functions are C functions, as in `cudnn-sys`. Pointers, handles and descriptors must meet the requirements in
//! cuDNN's documentation.
#![allow(non_snake_case, reason = "the functions' names are cuDNN's own")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builtin;
mod dispatch;
mod dl;
mod driver;
mod error;
mod error_strings;
mod events;
mod function;
mod guard;
mod last_error;
pub mod layers;
pub mod logging;
mod names;
mod options;
pub mod preload;
mod resolve;
mod sync;
mod thread;

/// cuDNN's functions, types and constants only, for `use cudnn_loader::api::*`.
pub mod api {
    pub use cudnn_sys::types::*;

    // These modules contain both functions and types. They shadow the type-only modules from the line above.
    pub use crate::dispatch::{adv, cnn, ext, graph, ops};

    #[allow(unused_imports, unreachable_pub, reason = "bindings of an older release may lack newer libraries")]
    pub use crate::dispatch::{adv::*, cnn::*, ext::*, graph::*, ops::*};
}

pub use api::*;
pub use cudnn_probe::{Installation, Library, Origin, ProbeError, RejectedCandidate, Version};
pub use cudnn_sys::{Error, check, devices, signatures, types};
pub use dispatch::{adv, cnn, ext, graph, load, load_library, ops};
pub use dl::dlerror::DlErrorKind;
pub use error::{LoadError, LoadErrorKind};
pub use error_strings::VERBOSE_VARIABLE;
pub use function::Function;
pub use last_error::last_load_error;
pub use options::{DIR_VARIABLE, Options};
pub use resolve::installation::{installation, nvidia_shim};
pub use resolve::libraries::{LoadedLibrary, loaded as loaded_library};

/// Internal functions for the drop-in library. Not covered by semantic versioning.
#[doc(hidden)]
pub mod __private {
    pub use cudnn_probe::shown_path;

    pub use crate::dispatch::resolve_private_symbol;
    pub use crate::error_strings::c_buffer::write_text;
    pub use crate::resolve::installation::process_needs_shim;
    pub use crate::sync::primitives::lock;
}

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
