//! Why Windows does not load a DLL, with the names that its error number hides.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::escape::shown_path;
use crate::image::Symbol;

/// Why Windows does not load a DLL. Displayed as a sentence without a full stop.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Failure {
    /// Windows finds no file for a DLL that is needed: error 126.
    MissingDll {
        /// The name of the DLL.
        name: String,
        /// The file that needs it. `None`: the program requests it.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        needed_by: Option<PathBuf>,
    },
    /// A DLL lacks a symbol that is needed: error 127.
    MissingSymbol {
        /// The symbol.
        symbol: Symbol,
        /// The DLL that lacks it.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        dll: PathBuf,
        /// The file that needs it.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        needed_by: PathBuf,
    },
    /// A file that Windows finds is no DLL for this processor, or is damaged: error 193.
    Unusable {
        /// The file.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        path: PathBuf,
        /// The file that needs it. `None`: the program requests it.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        needed_by: Option<PathBuf>,
        /// The reason.
        error: ProbeError,
    },
}

impl Failure {
    /// The number of Windows' error: 126, 127 or 193; 5 for a file that may not be read.
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
