//! Describes the result of looking up a DLL name.

use std::fmt;
use std::path::PathBuf;

/// The rule that selected a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Rule {
    /// The name is a path.
    Path,
    /// A DLL with this base name is already loaded.
    Loaded,
    /// Windows always loads this DLL from the system directory (`KnownDLLs`).
    Known,
    /// The directory of the DLL that was opened by path.
    DllDir,
    /// The directory of the program.
    ApplicationDir,
    /// A directory that the program added with `AddDllDirectory` or `SetDllDirectory`.
    AddedDir,
    /// `C:\Windows\System32`, or `C:\Windows`.
    SystemDir,
    /// The working directory. Users who can write to it control which DLL is loaded.
    WorkingDir,
    /// `PATH`.
    PathVariable,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Path => "by its path",
            Rule::Loaded => "already loaded",
            Rule::Known => "one of Windows' known DLLs",
            Rule::DllDir => "directory of the DLL",
            Rule::ApplicationDir => "directory of the program",
            Rule::AddedDir => "directory that the program has added",
            Rule::SystemDir => "directory of Windows",
            Rule::WorkingDir => "working directory",
            Rule::PathVariable => "PATH",
        })
    }
}

/// The result of looking up a DLL name.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Resolution {
    /// Windows loads this file or has already loaded it.
    Found {
        /// The file.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        path: PathBuf,
        /// The rule that selected the file.
        rule: Rule,
    },
    /// The name refers to an API set, which Windows maps to a system DLL.
    Virtual,
    /// Windows finds no file.
    Missing,
    /// Windows finds this file but cannot load it.
    Unusable {
        /// The file.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        path: PathBuf,
        /// The rule that selected the file.
        rule: Rule,
    },
}
