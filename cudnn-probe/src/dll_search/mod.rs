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
//! A program that searches for DLLs of its own process uses [`in_process`].
//!
//! The model follows Microsoft's "Dynamic-link library search order". It does not cover redirection by manifests and
//! `.local` files, packaged apps, and DLLs that are loaded later (delayed imports, `LoadLibrary`).

#[cfg(feature = "windows")]
mod failure;
pub mod in_process;
#[cfg(feature = "windows")]
mod names;
mod process_facts;
#[cfg(feature = "windows")]
mod simulate;

#[cfg(feature = "windows")]
pub use crate::image::dlls::imported_dlls as imports;
#[cfg(feature = "windows")]
pub use crate::image::imports::Symbol;
#[cfg(feature = "windows")]
pub use failure::Failure;
#[cfg(feature = "windows")]
pub use names::is_virtual;
pub use process_facts::ProcessFacts;
#[cfg(feature = "windows")]
pub use simulate::{Lookup, Mode, Module, Resolution, Rule, Simulation, explain};
