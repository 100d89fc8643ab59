//! An application's requirements for the cuDNN that the loader selects. Knows nothing of how one is found or loaded.

use std::path::PathBuf;

pub use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::{Host, Installation, ProbeError, Requirements, VARIABLES, Version, canonicalize};

use crate::dl;

/// Requirements for the cuDNN to load. By default: any cuDNN 9, the first that the search finds.
///
/// The first use in a process selects the installation. Later options are checked against it.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) path: Option<PathBuf>,
    pub(crate) requirements: Requirements,
    /// The environment in which to search; the current one if there is none.
    pub(crate) host: Option<Host>,
}

impl Options {
    /// No requirements.
    pub fn new() -> Self {
        Options::default()
    }

    /// Load cuDNN from this directory, or from the directory of this file, and search nowhere else. The path must be
    /// absolute.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Reject older versions.
    pub fn minimum_version(mut self, version: Version) -> Self {
        self.requirements = self.requirements.minimum(version);
        self
    }

    /// Reject a cuDNN that was built for another CUDA major, as far as its files show it.
    pub fn cuda_major(mut self, major: u32) -> Self {
        self.requirements = self.requirements.cuda_major(major);
        self
    }

    /// Reject a directory with a damaged library, or with libraries of different releases. Without it, a damaged
    /// library only fails the functions that it contains.
    pub fn strict(mut self, strict: bool) -> Self {
        self.requirements = self.requirements.strict(strict);
        self
    }

    /// Has the search use the environment variables of now, for a search in another thread: `getenv` beside a `setenv` of
    /// the program can read memory that was freed.
    pub(crate) fn read_environment(&mut self) {
        self.host = Some(dl::host().with_variables(VARIABLES));
    }

    /// Checks an installation that is already selected.
    pub(crate) fn check(&self, installation: &Installation) -> Result<(), ProbeError> {
        if let Some(path) = &self.path {
            let wanted = if path.is_file() { path.parent().unwrap_or(path) } else { path };
            // An installation's directory has no links in it.
            if canonicalize(wanted).ok().as_ref() != Some(&installation.dir) {
                return Err(ProbeError::OtherRequested { wanted: wanted.to_owned() });
            }
        }
        self.requirements.check(installation)
    }
}
