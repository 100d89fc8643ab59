//! A directory to look into, and why.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::escape::shown_path;
use crate::platform::PYTHON;

/// A directory in which a cuDNN may be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Candidate {
    /// The directory.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub dir: PathBuf,
    /// Why it is searched.
    pub origin: Origin,
}

impl Candidate {
    /// A directory, and why it is searched.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, origin: Origin) -> Self {
        Candidate { dir: dir.into(), origin }
    }
}

/// The reason for searching a directory. The search goes through them in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Origin {
    /// The program requests it in code.
    Explicit,
    /// This environment variable is set to it.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    Variable(&'static std::primitive::str),
    /// This process has already loaded a cuDNN from it.
    Loaded,
    /// It contains the library that runs this search, for example the drop-in library.
    AdjacentToLibrary,
    /// It contains the running executable, or, on Linux, is a `lib` directory next to it.
    Adjacent,
    /// It is in the run path (DT_RPATH or DT_RUNPATH) of this file: the program, or a library that it has loaded.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    RunPath(PathBuf),
    /// A wheel in the active Python virtual environment with this root.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    VirtualEnvironment(PathBuf),
    /// A wheel below `root`, whose packages the virtual environment includes: it was made with
    /// `--system-site-packages`.
    BasePython {
        /// The root of the Python that the environment was made with, `~/.local` or `/usr/local`.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        root: PathBuf,
        /// The root of the virtual environment.
        #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
        environment: PathBuf,
    },
    /// The active conda environment with this root.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    Conda(PathBuf),
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// A wheel in the environment with this root, to which the first `python3` (`python.exe`) on `PATH` belongs, or in
    /// the user's `~/.local` (`%APPDATA%\Python\Python312`).
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    Python(PathBuf),
    /// Windows: a directory of the system, which Windows searches before `PATH`.
    SystemDir,
    /// Windows: `PATH`.
    Path,
    /// `/etc/ld.so.cache`.
    LdCache,
    /// A directory that is built into ld.so.
    LdDefault,
    /// Below the directory in this environment variable: `CUDA_HOME`, `CUDA_PATH` or the like.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    CudaVariable(&'static std::primitive::str),
    /// A directory in which cuDNN is often installed.
    WellKnown,
    /// Below this directory, which a person inspects. The search for a cuDNN to load never includes it.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    UnderRoot(PathBuf),
}

impl Origin {
    /// The root of the Python or conda environment, if it is one.
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
