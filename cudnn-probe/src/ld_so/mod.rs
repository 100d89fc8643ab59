//! A model of glibc's dynamic loader, ld.so: which file it chooses for a library's name, and by which rule. Files are
//! read and nothing is loaded. It knows nothing of cuDNN.
//!
//! - [`SearchPath`]: the directories that ld.so searches, and [`SearchPath::resolve`] for one name.
//! - [`run_path_dirs`]: `$ORIGIN` and the like in a run path.
//! - [`Simulation`]: everything that ld.so would load for a program or a library.
//! - [`KnownFiles`]: what several simulations share, so that each file is read once.
//!
//! Not modelled: the legacy subdirectories (`tls`, `x86_64`) that glibc before 2.37 searches, `dlmopen`, auditing, and
//! `/etc/ld.so.preload`.

mod cache;
mod known_files;
mod layout;
mod paths;
mod simulate;
mod tokens;

pub(crate) use cache::Cache;
pub use known_files::KnownFiles;
pub(crate) use layout::distinct_default_dirs;
pub use paths::SearchPath;
pub use paths::is_candidate;
pub(crate) use paths::library_path;
pub use simulate::{Lookup, Object, Resolution, Rule, Simulation, needed, run_path};
pub use tokens::run_path_dirs;
