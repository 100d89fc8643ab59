//! What an application may ask of the cuDNN that it is given. Knows nothing of how one is found or loaded.

use std::path::PathBuf;

use cudnn_probe::{Installation, ProbeError, Requirements, Version};

pub use cudnn_probe::DIR_VARIABLE;

/// What the cuDNN to load must be. By default: any cuDNN 9, from wherever the search finds it first.
///
/// The first use in a process decides; options that come later are held against what was decided then.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) path: Option<PathBuf>,
    pub(crate) requirements: Requirements,
}

impl Options {
    /// No wishes.
    pub fn new() -> Self {
        Options::default()
    }

    /// Take it from this folder, or from the folder of this file, and from nowhere else. An absolute path.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Take none that is older.
    pub fn minimum_version(mut self, version: Version) -> Self {
        self.requirements.minimum = Some(version);
        self
    }

    /// Take only one that was built for this CUDA major, where that can be told.
    pub fn cuda_major(mut self, major: u32) -> Self {
        self.requirements.cuda_major = Some(major);
        self
    }

    /// Take only a folder in which every library is whole and of one release. Otherwise a damaged library fails the
    /// functions that are in it, and no others.
    pub fn strict(mut self, strict: bool) -> Self {
        self.requirements.strict = strict;
        self
    }

    /// Does an installation that is in use already meet them?
    pub(crate) fn accept(&self, installation: &Installation) -> Result<(), ProbeError> {
        if let Some(path) = &self.path {
            let wanted = if path.is_file() { path.parent().unwrap_or(path) } else { path };
            // An installation's folder has no links in it.
            if std::fs::canonicalize(wanted).ok().as_ref() != Some(&installation.dir) {
                return Err(ProbeError::OtherRequested { wanted: wanted.to_owned() });
            }
        }
        self.requirements.check(installation)
    }
}
