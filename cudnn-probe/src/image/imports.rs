//! Describes the imports of Windows libraries.

use std::fmt;

#[cfg(feature = "windows")]
use crate::platform::Architecture;

#[cfg(feature = "serde")]
crate::portable!(DllLinks, Symbol);

/// The properties of a DLL or program that the Windows loader uses.
#[cfg(feature = "windows")]
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct DllLinks {
    pub(crate) architecture: Architecture,
    pub(crate) imports: Vec<Import>,
}

/// An imported DLL with the symbols that are imported from it.
#[cfg(feature = "windows")]
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
