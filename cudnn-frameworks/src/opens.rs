//! The cuDNN that a framework would load: what its Python code opens first, then what ld.so finds for its libraries.

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, ld_so};

use crate::environment::Environment;
use crate::kind::Kind;

/// What a framework opens.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Opens {
    /// Its libraries that need cuDNN, whether they are linked to it or open it by name.
    pub users: Vec<PathBuf>,
    /// The files of cuDNN that it would load: the shim `libcudnn.so.9` first, or the one that it contains under another
    /// name (`libcudnn-74a4c495.so.9.1.0`). Empty if it would find none.
    pub cudnn: Vec<Opened>,
    /// Names of CUDA libraries that it needs and would not find: `libcublasLt.so.12`.
    pub missing: Vec<String>,
    /// It needs no cuDNN, as far as its files show.
    pub needs_none: bool,
}

/// A file that would be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The file.
    pub path: PathBuf,
    /// How it is found.
    pub by: By,
}

/// How a file is found.
#[derive(Debug)]
#[non_exhaustive]
pub enum By {
    /// The framework's Python code opens it by its path.
    Python,
    /// By ld.so's rule.
    LdSo(ld_so::Rule),
}

/// Follows what a framework would open in a fresh process.
pub(crate) fn read(kind: &Kind, dir: Option<&Path>, environment: &Environment, host: &Host) -> Opens {
    let _ = (kind, dir, environment, host);
    Opens::default()
}
