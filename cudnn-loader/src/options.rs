//! Defines the requirements that an application can set for the selected cuDNN.

use std::path::PathBuf;

pub use cudnn_probe::DIR_VARIABLE;
use cudnn_probe::{Host, Installation, ProbeError, Requirements, VARIABLES, Version, canonicalize};

/// Requirements for the cuDNN to load. By default, the loader accepts any cuDNN 9 and uses the first one it finds.
///
/// The first use in a process selects the installation. Options that are passed later are checked against it.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) path: Option<PathBuf>,
    pub(crate) requirements: Requirements,
    /// The environment to search; `None` for the current one.
    pub(crate) host: Option<Host>,
}

impl Options {
    /// Creates options without requirements.
    pub fn new() -> Self {
        Options::default()
    }

    /// Loads cuDNN from this directory, or from the directory that contains this file, without a search. The path must
    /// be absolute.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Rejects versions older than this one.
    pub fn minimum_version(mut self, version: Version) -> Self {
        self.requirements = self.requirements.minimum(version);
        self
    }

    /// Rejects a cuDNN built for a different CUDA major version, if the files reveal the version.
    pub fn cuda_major(mut self, major: u32) -> Self {
        self.requirements = self.requirements.cuda_major(major);
        self
    }

    /// Rejects a directory that contains a damaged library or libraries from different releases. Without this option, a
    /// damaged library affects only the functions in it.
    pub fn strict(mut self, strict: bool) -> Self {
        self.requirements = self.requirements.strict(strict);
        self
    }

    /// Captures the current environment variables for a search in another thread. Calling `getenv` there while the
    /// program calls `setenv` could read freed memory.
    pub(crate) fn read_environment(&mut self) {
        self.host = Some(Host::current().with_variables(VARIABLES));
    }

    /// Returns whether the requirements are the same, for a search in any environment.
    pub(crate) fn are_the_same_as(&self, other: &Options) -> bool {
        self.path == other.path && self.requirements == other.requirements
    }

    /// Checks an installation that is already selected.
    pub(crate) fn check(&self, installation: &Installation) -> Result<(), ProbeError> {
        if let Some(path) = &self.path {
            let wanted = if path.is_file() { path.parent().unwrap_or(path) } else { path };
            // The installation's directory is already canonical.
            if canonicalize(wanted).ok().as_ref() != Some(&installation.dir) {
                return Err(ProbeError::OtherRequested { wanted: wanted.to_owned() });
            }
        }
        self.requirements.check(installation)
    }
}
