//! Defines types that the readers of both file formats share.

use std::ffi::OsString;

use crate::error::ProbeError;

use super::file_data::FileData;

#[cfg(feature = "serde")]
crate::portable!(Links);

/// The source of file contents.
pub(super) type Data<'a> = &'a FileData;

/// The names in the tables of a library.
pub(super) struct TableNames {
    /// The internal name of the library.
    pub(super) name: String,
    pub(super) needed: Vec<String>,
    pub(super) run_path: Option<OsString>,
}

/// The properties of a library or program that ld.so uses.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Links {
    /// The internal name of the library.
    pub soname: Option<String>,
    /// The names of required libraries.
    pub needed: Vec<String>,
    /// `DT_RPATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub rpath: Option<OsString>,
    /// `DT_RUNPATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub runpath: Option<OsString>,
    /// Set if ld.so must not search the default directories (`-z nodefaultlib`).
    pub no_default_dirs: bool,
}

pub(super) fn malformed(reason: impl ToString) -> ProbeError {
    ProbeError::Malformed { reason: reason.to_string() }
}
