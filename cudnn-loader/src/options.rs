//! What an application may ask of the cuDNN that it is given, and the explicit way to load it.

use std::path::PathBuf;

use cudnn_probe::{Installation, Refusal, Requirements, Version};

pub use cudnn_probe::DIR_VARIABLE;

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
        let installation = loading::pin(self)?;
        loading::open(SubLibrary::Graph)?;
        Ok(installation)
    }

    /// Does an installation that is in use already meet them?
    pub(crate) fn accepts(&self, installation: &Installation) -> Result<(), Refusal> {
        if self.path.is_none() && self.requirements.minimum.is_none() && self.requirements.cuda_major.is_none() {
            return Ok(());
        }
        if let Some(wanted) = self.requirements.minimum.filter(|wanted| installation.version < *wanted) {
            return Err(Refusal::TooOld { found: installation.version, wanted });
        }
        if let (Some(wanted), Some(found)) = (self.requirements.cuda_major, installation.cuda_major)
            && wanted != found
        {
            return Err(Refusal::WrongCuda { found, wanted });
        }
        match &self.path {
            Some(path) => {
                let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
                match std::fs::canonicalize(folder) {
                    Ok(folder) if folder == installation.folder => Ok(()),
                    _ => Err(Refusal::ProcessHasAnother { loaded: installation.folder.clone() }),
                }
            }
            None => Ok(()),
        }
    }
}

/// Loads cuDNN now, whichever the search finds first: [`Options::load`] with no wishes.
///
/// # Errors
/// Why there is none.
pub fn load() -> Result<&'static Installation, LoadError> {
    Options::new().load()
}
