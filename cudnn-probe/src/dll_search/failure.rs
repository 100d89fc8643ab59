//! Explains why loading a DLL fails on Windows, including the names that the error number hides.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::escape::shown_path;
use crate::image::Symbol;

/// The reason why loading a DLL fails on Windows. It is displayed as a sentence without a full stop.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Failure {
    /// A required DLL was not found (error 126).
    MissingDll {
        /// The name of the DLL.
        name: String,
        /// The file that imports the DLL, or `None` if the program requested it.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        needed_by: Option<PathBuf>,
    },
    /// A DLL does not export a required symbol (error 127).
    MissingSymbol {
        /// The symbol.
        symbol: Symbol,
        /// The DLL without the symbol.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        dll: PathBuf,
        /// The file that imports the symbol.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        needed_by: PathBuf,
    },
    /// The file is not a DLL for this processor, or is damaged (error 193).
    Unusable {
        /// The file.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        path: PathBuf,
        /// The file that imports the DLL, or `None` if the program requested it.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        needed_by: Option<PathBuf>,
        /// The reason.
        error: ProbeError,
    },
}

impl Failure {
    /// Returns the Windows error number: 126, 127 or 193, or 5 if the file is not readable.
    #[must_use]
    pub fn error_code(&self) -> u32 {
        match self {
            Failure::MissingDll { .. } => 126,
            Failure::MissingSymbol { .. } => 127,
            Failure::Unusable { error: ProbeError::Unreadable { .. }, .. } => 5,
            Failure::Unusable { .. } => 193,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::MissingDll { name, needed_by: Some(by) } => {
                write!(f, "{name:?}, which {} needs, is missing", shown_path(by))
            }
            Failure::MissingDll { name, needed_by: None } => write!(f, "{} is missing", shown_path(Path::new(name))),
            Failure::MissingSymbol { symbol, dll, needed_by } => {
                write!(f, "{} lacks {symbol}, which {} needs", shown_path(dll), shown_path(needed_by))
            }
            Failure::Unusable { path, needed_by: Some(by), error } => {
                write!(f, "{}, which {} needs, {error}", shown_path(path), shown_path(by))
            }
            Failure::Unusable { path, needed_by: None, error } => write!(f, "{} {error}", shown_path(path)),
        }
    }
}
