//! Finds the files that the system would load for a program or library, without loading any.

mod dependency;
mod dlls;
mod ld_so;
mod mixes;
mod named;

use std::path::Path;

use cudnn_probe::ld_so::Simulation;
use cudnn_probe::{Host, Os, ProbeError};

pub use dependency::Dependency;
pub use dependency::with_canonical_dir;
pub(crate) use ld_so::dependencies;
pub(crate) use mixes::{OLDER_SHIM, mixes};
pub use mixes::{notes, problems};
pub(crate) use named::{NamedShim, names_in};

/// Returns the files that this system would load for a program or library.
///
/// # Errors
/// Fails if the file cannot be loaded on this system.
pub fn dependencies_of(file: &Path, host: &Host) -> Result<Vec<Dependency>, ProbeError> {
    match Os::HOST {
        Os::Windows => dlls::dependencies(file, host),
        _ => Ok(dependencies(Simulation::new(file, host)?)),
    }
}
