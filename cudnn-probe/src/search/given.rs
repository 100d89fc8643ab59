//! Defines the input of a search and the rules that are the same on all systems.

use crate::facts::{self, PathFacts};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::files::path_from_bytes;

use crate::host::Host;
use crate::platform::Os;

use super::origin::{Candidate, Origin};

/// The environment variable that selects a single directory (or a library file in it) for cuDNN.
pub const DIR_VARIABLE: &str = "CUDNN_LOADER_DIR";

/// The environment variables that contain the root of a CUDA toolkit or cuDNN.
pub(super) const CUDA_VARIABLES: [&str; 6] =
    ["CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// All environment variables that affect the search on this system.
pub const VARIABLES: &[&str] = match Os::HOST {
    Os::Linux => &[
        DIR_VARIABLE,
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PATH",
        "PYTHONUSERBASE",
        "HOME",
        "LD_LIBRARY_PATH",
        CUDA_VARIABLES[0],
        CUDA_VARIABLES[1],
        CUDA_VARIABLES[2],
        CUDA_VARIABLES[3],
        CUDA_VARIABLES[4],
        CUDA_VARIABLES[5],
    ],
    Os::Windows => &[
        DIR_VARIABLE,
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PATH",
        "PYTHONUSERBASE",
        "APPDATA",
        "LOCALAPPDATA",
        "SystemRoot",
        "ProgramFiles",
        CUDA_VARIABLES[0],
        CUDA_VARIABLES[1],
        CUDA_VARIABLES[2],
        CUDA_VARIABLES[3],
        CUDA_VARIABLES[4],
        CUDA_VARIABLES[5],
    ],
};

/// A rule of the search.
pub(crate) type Stage = fn(&Given) -> Vec<Candidate>;

/// The input of a search: the host and additional directories.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(super) host: Host,
    pub(super) explicit: Option<PathBuf>,
    pub(super) loaded: Vec<PathBuf>,
    pub(super) adjacent: Vec<PathBuf>,
    pub(super) run_paths: Vec<Candidate>,
    pub(super) other_run_paths: Vec<Candidate>,
    pub(super) variable: &'static str,
}

impl Given {
    pub(super) fn new(host: Host) -> Self {
        Given {
            host,
            explicit: None,
            loaded: Vec::new(),
            adjacent: Vec::new(),
            run_paths: Vec::new(),
            other_run_paths: Vec::new(),
            variable: DIR_VARIABLE,
        }
    }

    pub(super) fn explicit_candidate(&self) -> Option<Candidate> {
        let variable = || Some((self.host.variable(self.variable)?.into(), Origin::Variable(self.variable.into())));
        let explicit = self.explicit.clone().map(|path| (path, Origin::Explicit)).or_else(variable);
        explicit.map(|(path, origin)| Candidate::new(dir_of(path), origin))
    }

    pub(super) fn explicit_dir(&self) -> Vec<Candidate> {
        self.explicit_candidate().into_iter().collect()
    }

    pub(super) fn already_loaded(&self) -> Vec<Candidate> {
        let dirs = self.loaded.iter().filter(|dir| !facts::is_like_tmp(dir));
        dirs.map(|dir| Candidate::new(dir, Origin::Loaded)).collect()
    }

    pub(super) fn in_run_paths(&self) -> Vec<Candidate> {
        self.run_paths.clone()
    }

    /// Returns the value of a variable if it is an absolute path.
    pub(super) fn absolute(&self, variable: &str) -> Option<PathBuf> {
        self.host.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// Returns the directory itself, or the directory of a file.
fn dir_of(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(parent) if path.leads_to_file() => parent.to_owned(),
        _ => path,
    }
}

/// Returns the origin for packages that a virtual environment includes, or otherwise for the Python on `PATH`.
pub(super) fn python(root: PathBuf, environment: Option<&Path>) -> Origin {
    match environment {
        Some(environment) => Origin::BasePython { root, environment: environment.to_owned() },
        None => Origin::Python(root),
    }
}

/// Returns a setting in the `pyvenv.cfg` of a virtual environment. Like Python, ignores the case of names, and all lines
/// with this name before the last one.
#[must_use]
pub fn setting(environment: &Path, name: &str) -> Option<OsString> {
    const MAX_LEN: u64 = 64 << 10;
    let settings = facts::read_start(&environment.join("pyvenv.cfg"), MAX_LEN).ok()?;
    let value = |line: &[u8]| {
        let (key, value) = line.split_at(line.iter().position(|byte| *byte == b'=')?);
        let is_it = key.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        is_it.then(|| path_from_bytes(value.get(1..).unwrap_or_default().trim_ascii()).into_os_string())
    };
    settings.rsplit(|byte| *byte == b'\n').find_map(value)
}

/// Returns whether a virtual environment was created with `--system-site-packages`.
#[must_use]
pub fn includes_base_packages(environment: &Path) -> bool {
    setting(environment, "include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns the directory of the base Python's interpreter, if the virtual environment includes packages of the base
/// Python.
pub(super) fn included_home(environment: &Path) -> Option<PathBuf> {
    let home = setting(environment, "home").filter(|_| includes_base_packages(environment)).map(PathBuf::from);
    home.filter(|home| home.is_absolute())
}

/// Returns whether access to this path is denied. Such a path becomes a candidate to make sure it is reported.
pub(super) fn is_denied(path: &Path) -> bool {
    facts::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}
