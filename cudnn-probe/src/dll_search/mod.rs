//! Windows' search for DLLs, from files: which file a program or DLL gets for each DLL that it needs, and what Windows
//! hides behind its error numbers: which DLL is missing (126), which symbol (127), which file is of another kind (193).
//!
//! ```no_run
//! use cudnn_probe::Host;
//! use cudnn_probe::dll_search::{Facts, explain};
//!
//! let facts = Facts::of_host(&Host::current());
//! if let Some(failure) = explain(r"C:\cudnn\bin\cudnn_ops64_9.dll".as_ref(), &facts) {
//!     println!("{failure}"); // "cublasLt64_12.dll", which "C:\cudnn\bin\cudnn_ops64_9.dll" needs, is missing
//! }
//! ```
//!
//! It models the order of Microsoft's "Dynamic-link library search order". Not modelled: redirection by manifests and
//! `.local` files, packaged apps, and DLLs that another one loads later (delayed imports, `LoadLibrary`).

mod facts;
mod failure;
mod names;
mod simulate;

pub use crate::image::{Symbol, imported_dlls as imports};
pub use facts::Facts;
pub use failure::Failure;
pub use names::is_virtual;
pub use simulate::{Lookup, Mode, Module, Resolution, Rule, Simulation, explain};
