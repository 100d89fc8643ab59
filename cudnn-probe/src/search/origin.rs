//! Where a folder was named: the reason why it is looked at.

use std::fmt;
use std::path::PathBuf;

/// The reason why a folder is looked at. The search goes through them in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Given in code.
    Explicit,
    /// Given by this environment variable.
    Variable(&'static str),
    /// A cuDNN that this process has loaded already.
    Loaded,
    /// Beside the running executable, or beside the drop-in library itself.
    Adjacent,
    /// A run path (DT_RPATH or DT_RUNPATH) of this library, which the process has loaded, or of the program itself.
    RunPath(PathBuf),
    /// A wheel in the active Python virtual environment.
    VirtualEnvironment(PathBuf),
    /// The active conda environment.
    Conda(PathBuf),
    /// A wheel in the environment of the `python3` that stands first on PATH, or in the user's own.
    Python(PathBuf),
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// `/etc/ld.so.cache`.
    LdCache,
    /// One of the dynamic linker's own folders.
    LdDefault,
    /// `CUDA_HOME`, `CUDA_PATH` or the like.
    CudaVariable(&'static str),
    /// A folder in which cuDNN is often installed.
    WellKnown,
    /// Below a root that a person has named, to have it looked at; never for use.
    UnderRoot(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Explicit => f.write_str("given in code"),
            Origin::Variable(name) => write!(f, "given by {name}"),
            Origin::Loaded => f.write_str("already loaded in this process"),
            Origin::Adjacent => f.write_str("beside the program"),
            Origin::RunPath(of) => write!(f, "a run path of {of:?}"),
            Origin::VirtualEnvironment(root) => write!(f, "the active virtual environment {root:?}"),
            Origin::Conda(root) => write!(f, "the active conda environment {root:?}"),
            Origin::Python(root) => write!(f, "the python3 on PATH, of {root:?}"),
            Origin::LibraryPath => f.write_str("LD_LIBRARY_PATH"),
            Origin::LdCache => f.write_str("/etc/ld.so.cache"),
            Origin::LdDefault => f.write_str("the dynamic linker's own folders"),
            Origin::CudaVariable(name) => write!(f, "below {name}"),
            Origin::WellKnown => f.write_str("a usual folder"),
            Origin::UnderRoot(root) => write!(f, "named: {root:?}"),
        }
    }
}
