//! Names the rules by which ld.so selects files.

use std::fmt;
use std::path::PathBuf;

/// The rule that selected a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Rule {
    /// The name is a path.
    Path,
    /// The name is listed in `LD_PRELOAD`.
    Preload,
    /// An object with this name is already loaded.
    Loaded,
    /// The DT_RPATH of this object, which takes precedence over `LD_LIBRARY_PATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    Rpath(PathBuf),
    /// A directory in `LD_LIBRARY_PATH`.
    LibraryPath,
    /// The DT_RUNPATH of this object, which comes after `LD_LIBRARY_PATH`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    Runpath(PathBuf),
    /// `/etc/ld.so.cache`.
    Cache,
    /// A directory that is built into ld.so.
    Default,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Path => f.write_str("by its path"),
            Rule::Preload => f.write_str("LD_PRELOAD"),
            Rule::Loaded => f.write_str("already loaded"),
            Rule::Rpath(of) => write!(f, "RPATH of {of:?}"),
            Rule::LibraryPath => f.write_str("LD_LIBRARY_PATH"),
            Rule::Runpath(of) => write!(f, "RUNPATH of {of:?}"),
            Rule::Cache => f.write_str("/etc/ld.so.cache"),
            Rule::Default => f.write_str("default directory of ld.so"),
        }
    }
}
