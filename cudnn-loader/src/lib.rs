//! All of cuDNN 9, each function resolved on its first call, straight from the right sub-library.
//!
//! ```no_run
//! use cudnn_loader::{self as cudnn, Options, Version};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Optional: select an installation now, with requirements, and get an error that explains itself.
//!     let installation = Options::new().minimum_version(Version::new(9, 1, 0)).load()?;
//!     println!("cuDNN {} in {}", installation.version, installation.dir.display());
//!
//!     // Every function of cuDNN, under its own name.
//!     let mut handle = std::ptr::null_mut();
//!     unsafe { cudnn::check!(cudnn::cudnnCreate(&mut handle)) }?;
//!     unsafe { cudnn::check!(cudnn::cudnnDestroy(handle)) }?;
//!     Ok(())
//! }
//! ```
//!
//! `use cudnn_loader as cudnn;` and `use cudnn_sys as cudnn;` give the same names and signatures; the second links
//! cuDNN, the first needs none to build. The first call of a function finds an installation and loads the sub-library
//! that exports the function. From then on a call is one load and one jump. [`api`] has cuDNN's names alone, for a glob
//! import.
//!
//! # If cuDNN cannot be loaded
//! A call never aborts, panics or unwinds. A function that returns a status returns the one that fits
//! ([`LoadError::status`]); the version functions return 0; [`cudnnGetErrorString`] works with nothing installed; and
//! [`cudnnGetLastErrorString`] then returns the full report: the reason, what to do, the message of the system's loader,
//! and each directory that was searched. To get the error as a value, ask first:
//!
//! ```no_run
//! use cudnn_loader::Function;
//!
//! if let Err(error) = Function::CudnnConvolutionForward.resolve() {
//!     eprintln!("{error:#}\nRunning on the CPU.");
//! }
//! ```
//!
//! # One installation
//! The first use selects one directory, by `cudnn-probe`'s search. Everything comes from there by absolute path until
//! the process ends: the loader unloads nothing, and never loads a second cuDNN beside a first. If the process has
//! loaded a cuDNN already, because a framework did, the loader adopts that one.
//!
//! The selection is deliberately global to the process, and a test cannot replace it: cuDNN itself has global state,
//! and two copies in one process break each other.
//!
//! # Threads, constructors, fork
//! Any thread may make the first call of a function. The loader has no lock while ld.so works. So a first call from a
//! static constructor, which runs under ld.so's lock, cannot deadlock with a first call from another thread: it waits
//! for at most one second, then does the work itself.
//!
//! A child of `fork` keeps the loaded libraries, and does not wait for threads of its parent. If such a thread was
//! inside `dlopen`, the child may see a half-initialised library: fork before the first call or after it. CUDA and
//! cuDNN limit forked children further. A cancellation (`pthread_cancel`) during a first call takes effect after the
//! call.
//!
//! # Windows
//! Everything above holds with Windows' loader in place of ld.so, and `DllMain` in place of static constructors. There is
//! no `fork`, no cancellation, and an exit waits for nothing: Windows ends the other threads first. From its first use on,
//! the program or DLL that contains this crate stays loaded. On other systems than Linux and Windows, every use fails with
//! an error that says so.
//!
//! # Layers
//! A layer stands between the program and cuDNN, sees each function that the program calls, and may replace it: see
//! [`layers`]. No layer is on unless the program adds one or the environment variable `CUDNN_LAYERS` names one.
//!
//! # Features
//! `log` and `tracing` add [`logging`]'s `to_log` and `to_tracing`, which pass cuDNN's log to the crate of that name.
//! `warn-deprecated` has the compiler warn at each use of a name that cuDNN's headers mark as deprecated.
//!
//! # Safety
//! Each function is C's, as in `cudnn-sys`: pointers, handles and descriptors must be what cuDNN's documentation
//! requires.
#![allow(non_snake_case, reason = "the functions' names are cuDNN's own")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builtin;
mod dispatch;
mod dl;
mod driver;
mod error;
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
mod sub_library;
mod sync;
mod thread;

/// cuDNN's functions, types and constants, and nothing else: `use cudnn_loader::api::*`.
pub mod api {
    pub use cudnn_sys::types::*;

    // With the functions, in place of the modules of types that the line above brings.
    pub use crate::dispatch::{adv, cnn, ext, graph, ops};

    #[allow(
        unused_imports,
        unreachable_pub,
        reason = "bindings of an older release have nothing for a newer library"
    )]
    pub use crate::dispatch::{adv::*, cnn::*, ext::*, graph::*, ops::*};
}

pub use api::*;
pub use builtin::error_strings::VERBOSE_VARIABLE;
pub use cudnn_probe::{Installation, Library, Origin, ProbeError, RejectedCandidate, Version};
pub use cudnn_sys::{Error, check, devices, signatures, types};
pub use dispatch::{adv, cnn, ext, graph, load, ops};
pub use dl::dlerror::DlErrorKind;
pub use error::{LoadError, LoadErrorKind};
pub use function::Function;
pub use last_error::last_load_error;
pub use options::{DIR_VARIABLE, Options};
pub use resolve::installation::{installation, nvidia_shim};
pub use resolve::libraries::LoadedLibrary;
pub use sub_library::SubLibrary;

/// The drop-in library's API, besides the public one. Not covered by semantic versioning.
#[doc(hidden)]
pub mod __private {
    pub use cudnn_probe::shown_path;

    pub use crate::builtin::c_buffer::write_text;
    pub use crate::dispatch::resolve_private_symbol;
    pub use crate::preload::is_nested;
    pub use crate::resolve::installation::process_needs_shim;
    pub use crate::sync::primitives::lock;
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
