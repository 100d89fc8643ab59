//! Describes a directory to search and the reason for searching it.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::escape::shown_path;
use crate::platform::PYTHON;

/// A directory that may contain cuDNN.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Candidate {
    /// The directory.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub dir: PathBuf,
    /// The reason for searching the directory.
    pub origin: Origin,
}

impl Candidate {
    /// Creates a candidate from a directory and a reason.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, origin: Origin) -> Self {
        Candidate { dir: dir.into(), origin }
    }
}

/// The reason for searching a directory. The search uses this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Origin {
    /// The program requests the directory in code.
    Explicit,
    /// This environment variable contains the directory.
    Variable(Cow<'static, str>),
    /// The process has already loaded cuDNN from the directory.
    Loaded,
    /// The directory contains the library that runs this search, such as the drop-in library.
    AdjacentToLibrary,
    /// The directory contains the running executable or, on Linux, is a `lib` directory next to it.
    Adjacent,
    /// The run path (DT_RPATH or DT_RUNPATH) of this file contains the directory. The file is the program or a loaded
    /// library.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    RunPath(PathBuf),
    /// A wheel in the active Python virtual environment with this root.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    VirtualEnvironment(PathBuf),
    /// A wheel that the virtual environment includes because it was created with `--system-site-packages`.
    BasePython {
        /// The root of the base Python, or `~/.local` or `/usr/local`.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        root: PathBuf,
        /// The root of the virtual environment.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        environment: PathBuf,
    },
    /// The active conda environment with this root.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    Conda(PathBuf),
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// A wheel in the environment of the first `python3` (`python.exe`) on `PATH`, or in `~/.local` of the user
    /// (`%APPDATA%\Python\Python312`).
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    Python(PathBuf),
    /// Windows: a system directory, which comes before `PATH`.
    SystemDir,
    /// Windows: `PATH`.
    Path,
    /// `/etc/ld.so.cache`.
    LdCache,
    /// A directory that is built into ld.so.
    LdDefault,
    /// A subdirectory of the directory in this environment variable, such as `CUDA_HOME` or `CUDA_PATH`.
    CudaVariable(Cow<'static, str>),
    /// A directory where cuDNN is often installed.
    WellKnown,
    /// A subdirectory of a directory that a person inspects. Searches for a cuDNN to load never include it.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    UnderRoot(PathBuf),
}

impl Origin {
    /// Returns the root of the Python or conda environment, if the origin is an environment.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        match self {
            Origin::VirtualEnvironment(root)
            | Origin::Conda(root)
            | Origin::Python(root)
            | Origin::BasePython { root, .. } => Some(root),
            _ => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Explicit => f.write_str("requested by the program"),
            Origin::Variable(name) => write!(f, "set by {name}"),
            Origin::Loaded => f.write_str("already loaded in this process"),
            Origin::AdjacentToLibrary => f.write_str("next to the library that loads cuDNN"),
            Origin::Adjacent => f.write_str("next to the program"),
            Origin::RunPath(of) => write!(f, "run path of {}", shown_path(of)),
            Origin::VirtualEnvironment(root) => write!(f, "active virtual environment {}", shown_path(root)),
            Origin::BasePython { environment, .. } => {
                write!(f, "packages that the virtual environment {} includes", shown_path(environment))
            }
            Origin::Conda(root) => write!(f, "active conda environment {}", shown_path(root)),
            Origin::Python(root) => write!(f, "environment {} of the {PYTHON} on PATH", shown_path(root)),
            Origin::LibraryPath => f.write_str("LD_LIBRARY_PATH"),
            Origin::SystemDir => f.write_str("directory of Windows"),
            Origin::Path => f.write_str("PATH"),
            Origin::LdCache => f.write_str("/etc/ld.so.cache"),
            Origin::LdDefault => f.write_str("default directory of ld.so"),
            Origin::CudaVariable(name) => write!(f, "below {name}"),
            Origin::WellKnown => f.write_str("common installation directory"),
            Origin::UnderRoot(root) => write!(f, "below {}", shown_path(root)),
        }
    }
}
