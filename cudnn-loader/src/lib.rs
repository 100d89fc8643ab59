//! All of cuDNN 9, each function resolved on its first call, straight from the right sub-library.
//!
//! Put `use cudnn_loader as cudnn;` where `use cudnn_sys as cudnn;` stood: the same names, the same signatures, the
//! types re-exported. Nothing is linked; the first call of a function finds an installation, loads the sub-library
//! that the function is in, and from then on a call is one load and one jump.
//!
//! ```no_run
//! use cudnn_loader as cudnn;
//!
//! // SAFETY: the function takes nothing and has no precondition.
//! let version = unsafe { cudnn::cudnnGetVersion() };
//! println!("{version}"); // 92800, or 0 where there is no cuDNN
//! ```
//!
//! # When it cannot be loaded
//! A call never aborts, panics or unwinds. A function that returns a status returns the one that fits
//! ([`LoadError::status`]); the version functions return 0; [`cudnnGetErrorString`] works with nothing installed; and
//! [`cudnnGetLastErrorString`] then tells the whole story: every path that was tried, the dynamic linker's own words,
//! and what to do. To learn it as a value, ask first:
//!
//! ```no_run
//! use cudnn_loader::{Function, Options};
//!
//! let loaded = Options::new().minimum_version("9.10".parse()?).load()?;
//! println!("cuDNN {} in {}", loaded.version, loaded.folder.display());
//! Function::CudnnConvolutionForward.resolve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One installation
//! The first use decides on one folder, by `cudnn-probe`'s search, and everything comes from there by absolute path
//! until the process ends: nothing is ever unloaded, and a second cuDNN is never loaded beside a first. A cuDNN that
//! the process holds already, because a framework loaded it, is the one that is used.
//!
//! # Threads, constructors, fork
//! Every function may be called first from any thread. No lock is held while the dynamic linker works, so a first
//! call from a static constructor, which runs under the linker's own lock, cannot deadlock with a first call from
//! another thread: it waits at most a second for the other, then does the work itself. A child after `fork` goes on
//! with whatever was loaded, and does not wait for what another thread of its parent was in the middle of. If that was
//! inside the dynamic linker, the child may find a library that is listed and not yet set up: fork before the first call
//! or after it. What CUDA and cuDNN themselves allow in a forked child is their own affair. A thread that is being
//! cancelled (`pthread_cancel`) is cancelled after its first call, not within.
//!
//! # Safety
//! Each function is C's, as in `cudnn-sys`: pointers, handles and descriptors must be what cuDNN's documentation
//! asks for.
#![allow(non_snake_case, reason = "the functions' names are cuDNN's own")]

#[cfg(not(target_os = "linux"))]
compile_error!("cudnn-loader loads cuDNN on Linux; elsewhere use the types of cudnn-sys");

mod beginnings;
mod elected;
mod engines;
mod error;
mod functions;
mod guarded;
mod last_error;
mod linker;
mod linker_fault;
mod loading;
pub mod log;
mod options;
mod pinned;
pub mod preload;
mod run_paths;
mod set_callback;
mod slot;
mod sub_library;
mod sync;
mod uncancelled;
mod within;

pub use cudnn_probe::{Installation, Origin, ProbeError, RejectedCandidate, Version};
pub use cudnn_sys::types::*;
pub use cudnn_sys::{Error, check};

pub use error::{LoadError, LoadErrorKind};
pub use functions::{Function, adv, cnn, ext, graph, ops};
#[allow(unused_imports, unreachable_pub, reason = "bindings of an older release have nothing for a newer library")]
pub use functions::{adv::*, cnn::*, ext::*, graph::*, ops::*};
#[doc(hidden)]
pub use functions::{c_unwind, resolve_private_symbol};
pub use last_error::{VERBOSE_VARIABLE, last_load_error};
#[doc(hidden)]
pub use linker::is_secure_execution;
pub use linker_fault::DlErrorKind;
pub use loading::{LoadedLibrary, load};
pub use options::{DIR_VARIABLE, Options};
#[doc(hidden)]
pub use pinned::process_needs_shim;
pub use pinned::{installation, nvidia_shim};
pub use preload::{Preload, preload};
pub use sub_library::SubLibrary;
#[doc(hidden)]
pub use uncancelled::CancelDisabled;
