//! The common parts of the two file formats: the data that they read from, and the tables that they read.

use std::ffi::OsString;
use std::fmt;

use crate::error::ProbeError;
use crate::platform::Architecture;

use super::file_data::FileData;

#[cfg(feature = "serde")]
crate::portable!(Links, DllLinks, Symbol);

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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Links {
    /// The name that a library gives itself.
    pub soname: Option<String>,
    /// The names of the libraries that it needs.
    pub needed: Vec<String>,
    /// `DT_RPATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub rpath: Option<OsString>,
    /// `DT_RUNPATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub runpath: Option<OsString>,
    /// ld.so must not search its default directories (`-z nodefaultlib`).
    pub no_default_dirs: bool,
}

/// The parts of a DLL or program that Windows' loader reads.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct DllLinks {
    pub(crate) architecture: Architecture,
    pub(crate) imports: Vec<Import>,
}

/// A DLL that another one imports, and the symbols that it imports from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Import {
    pub(crate) dll: String,
    pub(crate) symbols: Vec<Symbol>,
}

/// A symbol that a DLL imports. Displayed as its name in quotes, or `number 3`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Symbol {
    /// By its name.
    Name(String),
    /// By its number.
    Ordinal(u16),
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symbol::Name(name) => write!(f, "{name:?}"),
            Symbol::Ordinal(number) => write!(f, "number {number}"),
        }
    }
}

pub(super) fn malformed(reason: impl ToString) -> ProbeError {
    ProbeError::Malformed { reason: reason.to_string() }
}
