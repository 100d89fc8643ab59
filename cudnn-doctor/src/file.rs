//! What a file of cuDNN's is, by its name and by what is in it, for commands that meet files and not installations.

use std::path::Path;

use cudnn_probe::{Identity, Library, Version, identify_any};

/// A file's release. The shim states none: it is of the release of the graph library beside it.
pub(crate) fn version_of(file: &Path) -> Option<Version> {
    match library(file.file_name()?.to_str()?)? {
        Library::Shim => version_of(&file.with_file_name(Library::Graph.file_name())),
        _ => identity(file)?.version,
    }
}

/// What the file says of itself.
pub(crate) fn identity(file: &Path) -> Option<Identity> {
    identify_any(file, library(file.file_name()?.to_str()?)?).ok()
}

/// The library of a name with or without numbers at its end.
pub(crate) fn library(name: &str) -> Option<Library> {
    let (stem, _) = name.split_once(".so.9")?;
    Library::from_file_name(&format!("{stem}.so.9"))
}
