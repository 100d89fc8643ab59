//! Describes a library that a program needs, on every system.

use std::path::{Path, PathBuf};

use cudnn_probe::{Library, Version};

use crate::cudnn_file;

pub(crate) const BY_SHIM: [Library; 5] = [Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];

/// A name that is looked up, and the file found for it.
pub struct Dependency {
    /// The library that opens it with dlopen. `None` for names that are linked.
    pub dlopened_by: Option<Library>,
    /// The name of the library in the file that needs it.
    pub name: String,
    /// The file that the loader finds.
    pub file: Option<PathBuf>,
    /// The loader's rule that leads to the file.
    pub rule: String,
    /// The release of cuDNN that the file belongs to.
    pub version: Option<Version>,
    /// Why the loader cannot use the file.
    pub error: Option<String>,
}

impl Dependency {
    /// Creates a linked dependency, with the version read from the file.
    pub(crate) fn new(name: String, file: Option<PathBuf>, rule: String, error: Option<String>) -> Dependency {
        let version = file.as_deref().and_then(cudnn_file::version);
        Dependency { dlopened_by: None, name, file, rule, version, error }
    }

    pub(crate) fn itself(file: &Path, rule: String) -> Option<Dependency> {
        let name = file.file_name()?.to_str()?.to_owned();
        cudnn_file::library(&name)?;
        Some(Dependency::new(name, Some(file.to_owned()), rule, None))
    }
}

/// Returns the file with a canonical directory, to resolve `lib/../../nvidia` for example.
pub fn with_canonical_dir(file: &Path) -> PathBuf {
    let dir = file.parent().and_then(|dir| cudnn_probe::canonicalize(dir).ok());
    dir.zip(file.file_name()).map_or(file.to_owned(), |(dir, name)| dir.join(name))
}
