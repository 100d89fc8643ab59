//! The common parts of the two file formats: the data that they read from, and the tables that they read.

use std::ffi::OsString;

use crate::error::ProbeError;

use super::file_data::FileData;

/// The file that is read.
pub(super) type Data<'a> = &'a FileData;

/// The contents of a library's tables of names, in either format.
pub(super) struct Contents {
    /// The name that the library gives itself.
    pub(super) name: String,
    pub(super) needed: Vec<String>,
    pub(super) run_path: Option<OsString>,
}

/// The parts of a library or program that ld.so reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// The name that a library gives itself.
    pub(crate) soname: Option<String>,
    pub(crate) needed: Vec<String>,
    pub(crate) rpath: Option<OsString>,
    pub(crate) runpath: Option<OsString>,
    /// ld.so must not search its default directories (`-z nodefaultlib`).
    pub(crate) no_default_dirs: bool,
}

pub(super) fn malformed(reason: impl ToString) -> ProbeError {
    ProbeError::Malformed { reason: reason.to_string() }
}
