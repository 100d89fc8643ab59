//! Identifies a file of cuDNN (library and release) by its name and its contents, for commands that look at files
//! rather than at installations.

use std::io::Read;
use std::path::Path;

use cudnn_probe::{Identity, Library, Version, identify_any};

/// The drop-in library is smaller than this, in bytes.
const MAX_DROP_IN_LEN: u64 = 64 << 20;

/// The start of the names of the functions that the drop-in library adds to cuDNN's.
const DROP_IN_SYMBOL: &[u8] = b"\0cudnnShim";

/// Is this the drop-in library, which stands in place of NVIDIA's shim?
pub(crate) fn is_drop_in(file: &Path) -> bool {
    is_drop_in_named(file, file)
}

/// Like [`is_drop_in`], for a file that can only be read at another path.
pub(crate) fn is_drop_in_named(name: &Path, file: &Path) -> bool {
    let is_shim = name.file_name().and_then(|name| library(name.to_str()?)) == Some(Library::Shim);
    if !is_shim || !std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() < MAX_DROP_IN_LEN)
    {
        return false;
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(MAX_DROP_IN_LEN).read_to_end(&mut bytes));
    read.is_ok() && bytes.windows(DROP_IN_SYMBOL.len()).any(|window| window == DROP_IN_SYMBOL)
}

/// The file's release. NVIDIA's shim states none: it belongs to the release of the graph library beside it.
pub(crate) fn version(file: &Path) -> Option<Version> {
    match library(file.file_name()?.to_str()?)? {
        Library::Shim => version(&file.with_file_name(Library::Graph.file_name())),
        _ => identity(file)?.version,
    }
}

/// The identity that the file states.
pub(crate) fn identity(file: &Path) -> Option<Identity> {
    identify_any(file, library(file.file_name()?.to_str()?)?).ok()
}

/// The library with this file name, which may end in the full version.
pub(crate) fn library(name: &str) -> Option<Library> {
    let (stem, _) = name.split_once(".so.9")?;
    Library::from_file_name(&format!("{stem}.so.9"))
}
