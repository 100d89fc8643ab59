//! Defines types that the readers of both file formats share.

use std::ffi::OsString;
use std::fmt;

use crate::error::ProbeError;
use crate::platform::Architecture;

use super::file_data::FileData;

#[cfg(feature = "serde")]
crate::portable!(Links, DllLinks, Symbol);

/// The source of file contents.
pub(super) type Data<'a> = &'a FileData;

/// The names in the tables of a library.
pub(super) struct Contents {
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
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub rpath: Option<OsString>,
    /// `DT_RUNPATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub runpath: Option<OsString>,
    /// Set if ld.so must not search the default directories (`-z nodefaultlib`).
    pub no_default_dirs: bool,
}

/// The properties of a DLL or program that the Windows loader uses.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct DllLinks {
    pub(crate) architecture: Architecture,
    pub(crate) imports: Vec<Import>,
}

/// An imported DLL with the symbols that are imported from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Import {
    pub(crate) dll: String,
    pub(crate) symbols: Vec<Symbol>,
}

/// An imported symbol. It is displayed as a quoted name, or as `number 3`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Symbol {
    /// A symbol that is imported by name.
    Name(String),
    /// A symbol that is imported by ordinal number.
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
