//! Why a function cannot be called: as a value for programs, as a report for people, as a status for C.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_probe::packages::{Component, DEFAULT_CUDA_MAJOR};
use cudnn_probe::{Candidate, DIR_VARIABLE, Installation, Origin, ProbeError, RejectedCandidate, Version, one_line};
use cudnn_sys::types::cudnnStatus_t;

use crate::dl::dlerror::DlErrorKind;
use crate::function::Function;
use crate::sub_library::SubLibrary;

// By number: `cudnn-sys` may have been generated from the headers of an older release, which lack some of the names.
const SUBLIBRARY_VERSION_MISMATCH: cudnnStatus_t = cudnnStatus_t(1002);
const SUBLIBRARY_LOADING_FAILED: cudnnStatus_t = cudnnStatus_t(1008);
const NOT_SUPPORTED: cudnnStatus_t = cudnnStatus_t(3000);
const SUBLIBRARY_UNAVAILABLE: cudnnStatus_t = cudnnStatus_t(3009);

/// Why a function cannot be called, or a sub-library cannot be loaded.
///
/// `{}` prints one line. `{:#}`, `{:?}` and [`LoadError::report`] print the full report: the reason, what to do,
/// ld.so's message, the selected installation, and each directory that was searched and rejected.
#[derive(Clone)]
pub struct LoadError {
    function: Option<Function>,
    library: SubLibrary,
    failure: Arc<Failure>,
}

/// The failure, without the function that it happened to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: LoadErrorKind,
    pub(crate) installation: Option<Installation>,
    pub(crate) rejected: Arc<Vec<RejectedCandidate>>,
}

/// The kind of failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// No directory has a usable cuDNN 9: see [`LoadError::rejected`].
    NoInstallation,
    /// The installation does not include this sub-library, as a JIT-only one does not include `libcudnn_ops.so.9`.
    LibraryMissing,
    /// The file exists, but the loader rejected it before loading it.
    Rejected {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: ProbeError,
    },
    /// ld.so could not load the file.
    Dlopen {
        /// The file.
        path: PathBuf,
        /// The meaning of ld.so's message.
        cause: DlErrorKind,
        /// ld.so's message.
        message: String,
    },
    /// ld.so loaded another library than the one that was identified on disk.
    VerificationFailed {
        /// The file.
        path: PathBuf,
        /// The difference.
        mismatch: String,
    },
    /// The installed cuDNN is older than the function.
    FunctionTooNew {
        /// The installed version.
        installed: Version,
    },
    /// The library does not export the function, although its release should have it.
    SymbolMissing {
        /// The library.
        path: PathBuf,
    },
    /// The library does not export this name, which is not one of cuDNN's public functions.
    PrivateSymbolMissing {
        /// The name.
        name: String,
        /// The library.
        path: PathBuf,
    },
    /// This process already uses an installation that does not meet the options.
    AlreadySelected {
        /// The option that it does not meet.
        error: ProbeError,
    },
}

impl LoadError {
    pub(crate) fn new(library: SubLibrary, failure: Arc<Failure>) -> Self {
        LoadError { function: None, library, failure }
    }

    pub(crate) fn of_library(mut self, library: SubLibrary) -> Self {
        self.library = library;
        self
    }

    pub(crate) fn of_function(mut self, function: Function) -> Self {
        self.function = Some(function);
        self
    }

    /// The function that was called, if it was a function.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.function
    }

    /// The sub-library that failed; it may be a dependency of the function's sub-library.
    #[must_use]
    pub fn library(&self) -> SubLibrary {
        self.library
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> &LoadErrorKind {
        &self.failure.kind
    }

    /// The selected installation; `None` if there is none.
    #[must_use]
    pub fn installation(&self) -> Option<&Installation> {
        self.failure.installation.as_ref()
    }

    /// Each directory that was searched and rejected, in order, with the reason.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedCandidate] {
        &self.failure.rejected
    }

    /// The status that a function returns for this error: 3009 if the installation does not include the library, 3000
    /// if it is too old for the function, 1002 if files are from two releases or CUDA majors, 1008 otherwise.
    pub fn status(&self) -> cudnnStatus_t {
        match self.kind() {
            LoadErrorKind::LibraryMissing => SUBLIBRARY_UNAVAILABLE,
            LoadErrorKind::FunctionTooNew { .. }
            | LoadErrorKind::SymbolMissing { .. }
            | LoadErrorKind::PrivateSymbolMissing { .. } => NOT_SUPPORTED,
            LoadErrorKind::Dlopen { cause: DlErrorKind::UndefinedSymbol { library: Some(library), .. }, .. }
                if library.starts_with("libcudnn") =>
            {
                SUBLIBRARY_VERSION_MISMATCH
            }
            LoadErrorKind::VerificationFailed { .. } => SUBLIBRARY_VERSION_MISMATCH,
            LoadErrorKind::Rejected { error, .. } => status_for(error),
            _ => SUBLIBRARY_LOADING_FAILED,
        }
    }

    /// Advice for a person, in one or two sentences.
    #[must_use]
    pub fn help(&self) -> String {
        match self.kind() {
            LoadErrorKind::NoInstallation => match (self.first_relevant(), self.requested()) {
                (Some(rejected), _) => rejected.error.help().unwrap_or_default(),
                (None, Some(RejectedCandidate { candidate: Candidate { origin: Origin::Explicit, .. }, .. })) => {
                    "Pass the absolute path of the directory that contains libcudnn_graph.so.9, or no path to search \
                     the default directories."
                        .into()
                }
                (None, Some(_)) => format!(
                    "Set {DIR_VARIABLE} to the absolute path of the directory that contains libcudnn_graph.so.9, or \
                     unset it to search the default directories."
                ),
                (None, None) => format!(
                    "Install cuDNN, for example with `pip install '{}>=9'` in the active virtual environment, or set \
                     {DIR_VARIABLE} to the directory that contains libcudnn_graph.so.9.",
                    Component::Cudnn.wheel(DEFAULT_CUDA_MAJOR)
                ),
            },
            LoadErrorKind::LibraryMissing => {
                let cuda = self.installation().and_then(|installation| installation.cuda_major);
                let wheel = Component::Cudnn.wheel(cuda.unwrap_or(DEFAULT_CUDA_MAJOR));
                format!(
                    "Install the full cuDNN (for example the wheel {wheel}) in place of the JIT-only or partial one, in \
                     a release that has this library."
                )
            }
            LoadErrorKind::Rejected { error: ProbeError::MixedVersions { .. }, .. }
                if self.installation().is_some_and(|installation| installation.origin == Origin::Loaded) =>
            {
                "Restart the program: cuDNN was replaced on disk after the program had loaded a part of it. If that does \
                 not help, remove the cuDNN in this directory and install one release again."
                    .into()
            }
            LoadErrorKind::Rejected { error, .. } | LoadErrorKind::AlreadySelected { error } => {
                error.help().unwrap_or_else(|| "Reinstall this cuDNN.".into())
            }
            LoadErrorKind::Dlopen { cause, .. } => dlopen_help(cause),
            LoadErrorKind::VerificationFailed { .. } => {
                "Restart the program. If that does not help, reinstall this cuDNN.".into()
            }
            LoadErrorKind::FunctionTooNew { .. } => match self.function {
                Some(function) => format!("Install cuDNN {} or newer.", function.since()),
                None => "Install a newer cuDNN.".into(),
            },
            LoadErrorKind::SymbolMissing { .. } => {
                "Reinstall this cuDNN: its files are from different releases.".into()
            }
            LoadErrorKind::PrivateSymbolMissing { .. } => {
                "Install a cuDNN release that exports this name: this one is too old or too new.".into()
            }
        }
    }

    /// The full report: several lines, the first of which stands on its own.
    #[must_use]
    pub fn report(&self) -> String {
        // The help comes early: callers of cudnnGetLastErrorString pass short buffers.
        let mut text = format!("{self}\nhelp: {}", one_line(&self.help()));
        if let LoadErrorKind::Dlopen { message, .. } = self.kind() {
            let _ = write!(text, "\nnote: ld.so reports: {}", one_line(message));
        }
        if let Some(installation) = self.installation() {
            let Installation { version, dir, origin, .. } = installation;
            let _ = write!(text, "\nnote: selected: cuDNN {version} in {dir:?} ({origin})");
        }
        // If there is a selected installation, the rejected ones explain why it is this one.
        if !self.rejected().is_empty() {
            text.push_str("\nnote: searched and rejected, in this order:");
            for RejectedCandidate { candidate, error, .. } in self.rejected() {
                let reason = one_line(&error.to_string());
                let _ = write!(text, "\n  {:?} ({}) {reason}", candidate.dir, candidate.origin);
            }
        }
        text
    }

    /// The first directory that contains something, although nothing usable. One that cannot be read comes last: it may
    /// have nothing to do with cuDNN.
    fn first_relevant(&self) -> Option<&RejectedCandidate> {
        let relevant = || self.rejected().iter().filter(|rejected| rejected.error.help().is_some());
        let is_readable = |rejected: &&RejectedCandidate| !matches!(rejected.error, ProbeError::Unreadable { .. });
        relevant().find(is_readable).or_else(|| relevant().next())
    }

    /// The directory that the program or the user named, if the search was limited to it.
    fn requested(&self) -> Option<&RejectedCandidate> {
        match self.rejected() {
            [only] if matches!(only.candidate.origin, Origin::Explicit | Origin::Variable(_)) => Some(only),
            _ => None,
        }
    }

    /// The directory that the one line is about: a relevant one, or else the one that was named.
    fn blamed(&self) -> Option<&RejectedCandidate> {
        self.first_relevant().or_else(|| self.requested())
    }

    /// One sentence about the failure that does not name the function.
    fn reason(&self) -> String {
        match self.kind() {
            LoadErrorKind::NoInstallation => match self.blamed() {
                Some(rejected) if self.requested().is_some() => {
                    let origin = &rejected.candidate.origin;
                    format!("no usable cuDNN 9 found: {:?} ({origin}) {}", rejected.path(), rejected.error)
                }
                Some(rejected) => format!("no usable cuDNN 9 found: {:?} {}", rejected.path(), rejected.error),
                None => "no usable cuDNN 9 found".into(),
            },
            LoadErrorKind::LibraryMissing => match self.installation() {
                Some(Installation { version, dir, .. }) => {
                    format!("cuDNN {version} in {dir:?} does not include {}", self.library)
                }
                None => format!("this cuDNN does not include {}", self.library),
            },
            LoadErrorKind::Rejected { path, error } => format!("{path:?} {error}"),
            LoadErrorKind::Dlopen { path, cause, .. } => match cause {
                DlErrorKind::MissingDependency { name } => format!("{path:?} needs {name}, which ld.so did not find"),
                DlErrorKind::UndefinedSymbol { name, library: Some(library) } => {
                    format!(
                        "{path:?} needs the symbol {name}, which {library} lacks: the two are from different releases"
                    )
                }
                DlErrorKind::UndefinedSymbol { name, library: None } => {
                    format!("{path:?} needs the symbol {name}, which no loaded library has")
                }
                DlErrorKind::MissingVersion { name } => {
                    format!("{path:?} needs {name}, which this system's libraries do not provide")
                }
                DlErrorKind::Other => format!("ld.so cannot load {path:?}"),
            },
            LoadErrorKind::VerificationFailed { path, mismatch } => format!("after loading, {path:?} {mismatch}"),
            LoadErrorKind::FunctionTooNew { installed } => {
                let since = self.function.map_or(String::new(), |function| format!(" (it needs {})", function.since()));
                match self.installation() {
                    Some(Installation { dir, .. }) => {
                        format!("cuDNN {installed} in {dir:?} is older than this function{since}")
                    }
                    None => format!("cuDNN {installed} is older than this function{since}"),
                }
            }
            LoadErrorKind::SymbolMissing { path } => {
                format!("{path:?} does not export it, although its release should")
            }
            LoadErrorKind::PrivateSymbolMissing { name, path } => format!("{path:?} does not export {name:?}"),
            LoadErrorKind::AlreadySelected { error } => match self.installation() {
                Some(Installation { dir, .. }) => {
                    format!("this process already uses the cuDNN in {dir:?}, which {error}")
                }
                None => format!("this process already uses a cuDNN that {error}"),
            },
        }
    }
}

fn dlopen_help(cause: &DlErrorKind) -> String {
    match cause {
        DlErrorKind::MissingDependency { name } => missing_library_help(name),
        DlErrorKind::UndefinedSymbol { name, .. } => {
            format!("Reinstall this cuDNN: a library beside this one is from another release and lacks {name}.")
        }
        DlErrorKind::MissingVersion { name } => {
            format!("Install an older cuDNN, or a newer system: this system's libraries do not provide {name}.")
        }
        DlErrorKind::Other => "See ld.so's message below. If it blames the file, reinstall this cuDNN.".into(),
    }
}

/// Advice where to get a library that cuDNN needs and does not include.
fn missing_library_help(name: &str) -> String {
    match Component::from_soname(name) {
        Some((Component::Cudnn, _)) => "Reinstall this cuDNN: one of its libraries is missing.".into(),
        Some((component, cuda)) => {
            let wheel = component.wheel(cuda.unwrap_or(DEFAULT_CUDA_MAJOR));
            format!(
                "Install {component} (the wheel {wheel}, if cuDNN is a wheel), or put its directory on LD_LIBRARY_PATH."
            )
        }
        None if name.starts_with("libcuda.so") => {
            "Install NVIDIA's driver, or start the container with the GPU (`docker run --gpus all`). Under WSL the \
             driver's library is in /usr/lib/wsl/lib."
                .into()
        }
        None if name.starts_with("libz.so") => "Install zlib (Debian and Ubuntu: `apt-get install zlib1g`).".into(),
        None => format!("Install the package that contains {name}, or put its directory on LD_LIBRARY_PATH."),
    }
}

/// A status's name, from the table. Not inlined, because each copy would contain the table.
#[inline(never)]
pub(crate) fn status_name(status: cudnnStatus_t) -> &'static CStr {
    status.name().unwrap_or(c"CUDNN_STATUS_UNKNOWN")
}

/// The status for a library that was rejected.
pub(crate) fn status_for(error: &ProbeError) -> cudnnStatus_t {
    match error {
        ProbeError::MixedVersions { .. }
        | ProbeError::MixedCuda { .. }
        | ProbeError::OtherRelease { .. }
        | ProbeError::OtherInstallation { .. }
        | ProbeError::WrongMajor { .. } => SUBLIBRARY_VERSION_MISMATCH,
        _ => SUBLIBRARY_LOADING_FAILED,
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.write_str(&self.report());
        }
        let reason = one_line(&self.reason());
        match self.function {
            Some(function) => write!(f, "{function} cannot be called: {reason}"),
            None if matches!(self.kind(), LoadErrorKind::PrivateSymbolMissing { .. }) => f.write_str(&reason),
            None => write!(f, "{} cannot be loaded: {reason}", self.library),
        }
    }
}

/// The full report: what `main` prints when it returns the error.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            LoadErrorKind::Rejected { error, .. } | LoadErrorKind::AlreadySelected { error } => Some(error),
            LoadErrorKind::NoInstallation => Some(&self.blamed()?.error),
            _ => None,
        }
    }
}
