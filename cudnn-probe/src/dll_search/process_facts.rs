//! Describes the directories and loaded DLLs that determine the result of a DLL search.

use std::path::{Path, PathBuf};

use crate::host::Host;

/// The directories and loaded DLLs of a process, which determine the files that Windows finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProcessFacts {
    /// The directory of the program.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub application_dir: Option<PathBuf>,
    /// `C:\Windows\System32`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub system_dir: Option<PathBuf>,
    /// `C:\Windows`.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub windows_dir: Option<PathBuf>,
    /// The working directory. Windows searches it before `PATH`, which means that a file there can replace a missing
    /// DLL.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub working_dir: Option<PathBuf>,
    /// The directory that the program set with `SetDllDirectory`, which replaces the working directory.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub dll_directory: Option<PathBuf>,
    /// The directories that the program added with `AddDllDirectory` (Python: `os.add_dll_directory`).
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub added_dirs: Vec<PathBuf>,
    /// The directories in `PATH`, in order.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub path: Vec<PathBuf>,
    /// The DLLs that the process has loaded. Windows reuses a loaded DLL for all requests with the same base name.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub loaded: Vec<PathBuf>,
}

impl ProcessFacts {
    /// Creates facts without any directories.
    #[must_use]
    pub fn new() -> Self {
        ProcessFacts::default()
    }

    /// Describes a program that starts on this host, as far as the environment and the path of the program are known.
    #[must_use]
    pub fn from_host(host: &Host) -> Self {
        let windows = host.variable("SystemRoot").map_or_else(|| PathBuf::from(r"C:\Windows"), PathBuf::from);
        let path = host.variable("PATH").unwrap_or_default();
        ProcessFacts {
            application_dir: host.program_dir().map(Path::to_owned),
            system_dir: Some(windows.join("System32")),
            windows_dir: Some(windows),
            path: std::env::split_paths(&path).filter(|dir| !dir.as_os_str().is_empty()).collect(),
            ..ProcessFacts::default()
        }
    }

    /// Returns whether the file is in a directory of Windows itself.
    #[cfg(feature = "windows")]
    pub(super) fn is_of_system(&self, file: &Path) -> bool {
        let dirs = [&self.system_dir, &self.windows_dir];
        dirs.into_iter().flatten().any(|dir| file.parent() == Some(dir.as_path()))
    }
}
