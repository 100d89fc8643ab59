//! Describes a library that a program needs. How the system finds it is not described here.

use std::path::{Path, PathBuf};

use cudnn_probe::{Library, Version};

use crate::cudnn_file;

/// The libraries that NVIDIA's shim opens by their names.
pub(crate) const BY_SHIM: [Library; 5] = [Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];

/// A name that is looked up, and the file that the system finds.
pub(crate) struct Dependency {
    /// The library that opens it with dlopen; `None` for names that are linked.
    pub(crate) dlopened_by: Option<Library>,
    pub(crate) name: String,
    pub(crate) file: Option<PathBuf>,
    pub(crate) rule: String,
    pub(crate) version: Option<Version>,
    pub(crate) error: Option<String>,
}

impl Dependency {
    /// A linked name, with the version that its file states.
    pub(crate) fn new(name: String, file: Option<PathBuf>, rule: String, error: Option<String>) -> Dependency {
        let version = file.as_deref().and_then(cudnn_file::version);
        Dependency { dlopened_by: None, name, file, rule, version, error }
    }

    /// The program or library itself, if it belongs to cuDNN.
    pub(crate) fn itself(file: &Path, rule: String) -> Option<Dependency> {
        let name = file.file_name()?.to_str()?.to_owned();
        cudnn_file::library(&name)?;
        Some(Dependency::new(name, Some(file.to_owned()), rule, None))
    }
}

/// The file, with `lib/../../nvidia` resolved in its directory.
pub(crate) fn with_canonical_dir(file: &Path) -> PathBuf {
    let dir = file.parent().and_then(|dir| cudnn_probe::canonicalize(dir).ok());
    dir.zip(file.file_name()).map_or(file.to_owned(), |(dir, name)| dir.join(name))
}
