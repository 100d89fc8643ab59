//! The packages of an environment, from their `.dist-info` directories. Reads no more than names, but for packages whose
//! metadata somebody asks for.

use std::path::PathBuf;

use crate::environment::Environment;

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distribution {
    /// Its normalised name (PEP 503): `nvidia-cudnn-cu12`.
    pub name: String,
    /// Its version, as written: `9.10.2.21`.
    pub version: String,
    /// The import directory that contains it: `.../site-packages`.
    pub import_dir: PathBuf,
    /// Its metadata directory: `.../torch-2.9.1+cu128.dist-info`.
    pub info_dir: PathBuf,
    /// It is a link to a source directory (`pip install --editable`).
    pub is_editable: bool,
}

/// A package, or a directory, that cannot be read as one should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreadable {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason: "is a pipe", "has two versions: 2.8.0 and 2.9.1".
    pub reason: String,
}

/// What an environment's import directories contain.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) is_truncated: bool,
}

/// Reads the names of all packages.
pub(crate) fn read(environment: &Environment) -> Found {
    let _ = environment;
    Found::default()
}
