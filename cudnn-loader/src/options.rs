//! What an application may ask of the cuDNN that it is given, and the explicit way to load it.

use std::path::PathBuf;

use cudnn_probe::{Installation, Refusal, Requirements, Version};

pub use cudnn_probe::DIR_VARIABLE;

use crate::pinned::{pin, same_folder};
use crate::{LoadError, SubLibrary, loading};

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

    /// Finds an installation that meets the options, and loads `libcudnn_graph.so.9` from it. Tries again when an
    /// earlier attempt failed.
    ///
    /// # Errors
    /// Why there is none, or why the one in use does not meet the options.
    pub fn load(&self) -> Result<&'static Installation, LoadError> {
        loading::forget_failure(SubLibrary::Graph);
        let installation = pin(self)?;
        loading::open(SubLibrary::Graph)?;
        Ok(installation)
    }

    /// Does an installation that is in use already meet them?
    pub(crate) fn accept(&self, installation: &Installation) -> Result<(), Refusal> {
        if let Some(path) = &self.path {
            let wanted = if path.is_file() { path.parent().unwrap_or(path) } else { path };
            if !same_folder(wanted, &installation.folder) {
                return Err(Refusal::AnotherIsAskedFor { wanted: wanted.to_owned() });
            }
        }
        let mut installation = installation.clone();
        installation.cuda_major = loading::cuda_major().or(installation.cuda_major);
        self.requirements.accept(&installation)
    }
}

/// Loads cuDNN now, whichever the search finds first: [`Options::load`] with no wishes.
///
/// # Errors
/// Why there is none.
pub fn load() -> Result<&'static Installation, LoadError> {
    Options::new().load()
}
