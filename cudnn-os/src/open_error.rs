//! Describes why a library could not be opened.

use std::fmt;
use std::path::PathBuf;

/// The reason why a library could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The system's loader returned this message.
    Refused(String),
    /// The function that opens libraries was replaced in this process, and did not open the library.
    Intercepted {
        /// The file that was opened instead, if there is one.
        opened: Option<PathBuf>,
        /// The library or program that replaces the function, if it is known.
        by: Option<PathBuf>,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (opened, by) = match self {
            OpenError::Refused(message) => return f.write_str(message),
            OpenError::Intercepted { opened, by } => (opened, by),
        };
        match opened {
            Some(opened) => write!(f, "dlopen opened {opened:?} instead")?,
            None => f.write_str("dlopen opened nothing and gave no reason")?,
        }
        by.as_ref().map_or(Ok(()), |by| write!(f, "; {by:?} replaces dlopen"))
    }
}
