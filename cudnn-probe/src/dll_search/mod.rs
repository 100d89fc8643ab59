//! Simulates how Windows searches for DLLs, based only on files.
//!
//! The result shows which file is chosen for all dependencies of a program or DLL. It also explains error numbers: the
//! missing DLL (126), the missing symbol (127), or the file of the wrong kind (193).
//!
//! ```no_run
//! use cudnn_probe::Host;
//! use cudnn_probe::dll_search::{ProcessFacts, explain};
//!
//! let facts = ProcessFacts::from_host(&Host::current());
//! if let Some(failure) = explain(r"C:\cudnn\bin\cudnn_ops64_9.dll".as_ref(), &facts) {
//!     println!("{failure}"); // "cublasLt64_12.dll", which "C:\cudnn\bin\cudnn_ops64_9.dll" needs, is missing
//! }
//! ```
//!
//! Without the feature `windows`, [`explain`] and [`resolve`] return `None`, so that the same program compiles for Linux
//! without the code of the simulation.
//!
//! The model follows Microsoft's "Dynamic-link library search order". It does not cover redirection by manifests and
//! `.local` files, packaged apps, and DLLs that are loaded later (delayed imports, `LoadLibrary`).

mod failure;
#[cfg(feature = "windows")]
mod names;
mod process_facts;
mod resolution;
#[cfg(feature = "windows")]
mod simulate;

#[cfg(feature = "windows")]
pub use crate::image::dlls::imported_dlls as imports;
pub use crate::image::imports::Symbol;
pub use failure::Failure;
#[cfg(feature = "windows")]
pub use names::is_virtual;
pub use process_facts::ProcessFacts;
pub use resolution::{Resolution, Rule};
#[cfg(feature = "windows")]
pub use simulate::{Lookup, Mode, Module, Simulation, explain, resolve};

/// Returns `None`.
#[cfg(not(feature = "windows"))]
#[must_use]
pub fn explain(_: &std::path::Path, _: &ProcessFacts) -> Option<Failure> {
    None
}

/// Returns `None`.
#[cfg(not(feature = "windows"))]
#[must_use]
pub fn resolve(_: &str, _: &ProcessFacts) -> Option<Resolution> {
    None
}
