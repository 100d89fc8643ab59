//! What a program or library depends on: a name, and the file that the system finds for it. Not how it finds it.

use std::path::PathBuf;

use cudnn_probe::{Library, Version};

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
