//! Simulates how glibc's dynamic loader (ld.so) searches for libraries. Files are only read, never loaded.
//!
//! - [`SearchPath`] contains the directories that ld.so searches, and [`SearchPath::resolve`] looks up one name.
//! - [`is_candidate`] tells whether ld.so would try to load a file.
//! - [`run_path_dirs`] expands `$ORIGIN` and other tokens in a run path.
//! - [`Simulation`] determines everything that ld.so would load for a program or library.
//! - [`KnownFiles`] is a cache for several simulations.
//!
//! The model does not include the legacy subdirectories (`tls`, `x86_64`) that glibc before 2.37 searches, `dlmopen`,
//! auditing, or `/etc/ld.so.preload`.

mod cache;
#[cfg(feature = "inspect")]
mod known_files;
mod layout;
mod paths;
mod rule;
#[cfg(feature = "inspect")]
mod simulate;
mod tokens;

pub(crate) use cache::Cache;
#[cfg(feature = "serde")]
pub use cache::add_to_cache;
#[cfg(feature = "inspect")]
pub use known_files::KnownFiles;
pub(crate) use layout::distinct_default_dirs;
pub(crate) use paths::library_path;
pub use paths::{SearchPath, is_candidate};
pub use rule::Rule;
#[cfg(feature = "inspect")]
pub use simulate::{Lookup, Object, Resolution, Simulation, needed, run_path, run_path_contains};
pub use tokens::run_path_dirs;
