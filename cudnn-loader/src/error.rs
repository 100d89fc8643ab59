//! Why a function cannot be called: as a value for programs, as a story for people, as a status for C.

use std::ffi::CStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_probe::{DIR_VARIABLE, Installation, Origin, ProbeError, RejectedCandidate, Version};

use crate::linker_fault::{DlErrorKind, missing_library_help};
use crate::{Function, SubLibrary, cudnnStatus_t};

// By number: the headers of an older release, which `cudnn-sys` may have been generated from, lack some of the names.
const SUBLIBRARY_VERSION_MISMATCH: cudnnStatus_t = cudnnStatus_t(1002);
const SUBLIBRARY_LOADING_FAILED: cudnnStatus_t = cudnnStatus_t(1008);
const NOT_SUPPORTED: cudnnStatus_t = cudnnStatus_t(3000);
const SUBLIBRARY_UNAVAILABLE: cudnnStatus_t = cudnnStatus_t(3009);

/// Why a function, or a sub-library, cannot be used.
///
/// Its `Display` is the whole story, over several lines; the first line stands on its own.
#[derive(Clone, Debug)]
pub struct LoadError {
    function: Option<Function>,
    library: SubLibrary,
    failure: Arc<Failure>,
}

/// What happened, apart from whom it happened to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: LoadErrorKind,
    pub(crate) installation: Option<Installation>,
    pub(crate) rejected: Arc<Vec<RejectedCandidate>>,
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// No folder that was looked at holds a cuDNN 9 that serves: see [`LoadError::considered`].
    NoInstallation,
    /// The installation lacks this sub-library, as a JIT-only one lacks `libcudnn_ops.so.9`.
    LibraryMissing,
    /// The file is there and was refused before it was loaded.
    Rejected {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ProbeError,
    },
    /// The dynamic linker could not load the file.
    Dlopen {
        /// The file.
        path: PathBuf,
        /// What the linker's words mean.
        cause: DlErrorKind,
        /// The linker's own words.
        message: String,
    },
    /// What was loaded is not what the file had said.
    VerificationFailed {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// The installed cuDNN is older than the function.
    FunctionTooNew {
        /// The installed version.
        installed: Version,
    },
    /// The installed cuDNN should have the function, going by its version, and has not.
    SymbolMissing {
        /// The library that was asked.
        path: PathBuf,
    },
    /// A name was asked for that is none of cuDNN's public functions, and the library does not have it.
    PrivateSymbolMissing {
        /// The name.
        name: String,
        /// The library that was asked.
        path: PathBuf,
    },
    /// An installation is in use already, and does not meet what is asked for now.
    AlreadySelected {
        /// Why it does not serve.
        refusal: ProbeError,
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

    /// The function that was wanted, if it was a function.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.function
    }

    /// The sub-library that was wanted; it may be one that the function's own needs.
    #[must_use]
    pub fn library(&self) -> SubLibrary {
        self.library
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &LoadErrorKind {
        &self.failure.kind
    }

    /// The installation in use; none where none was found.
    #[must_use]
    pub fn installation(&self) -> Option<&Installation> {
        self.failure.installation.as_ref()
    }

    /// Every folder that was looked at and not taken, in order, each with the reason.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedCandidate] {
        &self.failure.rejected
    }

    /// The status that a function returns for it: 3009 for a library that the installation does not include, 3000 for
    /// a function that it is too old for, 1002 for files of two releases or CUDA majors, else 1008.
    #[must_use]
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
            LoadErrorKind::Rejected { error: refusal, .. } => status_of(refusal),
            _ => SUBLIBRARY_LOADING_FAILED,
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match self.kind() {
            LoadErrorKind::NoInstallation => match (self.first_relevant(), self.rejected()) {
                (Some(considered), _) => considered.error.help().unwrap_or_default(),
                (None, [RejectedCandidate { candidate, .. }]) if candidate.origin == Origin::Explicit => {
                    "Give the absolute path of the folder that holds libcudnn_graph.so.9, or none, so that the usual \
                     places are searched."
                        .into()
                }
                (None, [RejectedCandidate { candidate, .. }]) if candidate.origin == Origin::Variable(DIR_VARIABLE) => {
                    format!(
                        "Set {DIR_VARIABLE} to the absolute path of the folder that holds libcudnn_graph.so.9, or unset it, \
                     so that the usual places are searched."
                    )
                }
                _ => format!(
                    "Install cuDNN, for example with `pip install nvidia-cudnn-cu12` in the active virtual \
                     environment, or set {DIR_VARIABLE} to the folder that holds libcudnn_graph.so.9."
                ),
            },
            LoadErrorKind::LibraryMissing => {
                "Install the full cuDNN (nvidia-cudnn-cu12 or -cu13) in place of the JIT-only or partial one, and one \
                 that is new enough to have the library."
                    .into()
            }
            LoadErrorKind::Rejected { error: ProbeError::MixedVersions { .. }, .. }
                if self.installation().is_some_and(|found| found.origin == Origin::Loaded) =>
            {
                "Start the program again: cuDNN was replaced on disk while the program had loaded a part of it. If that \
                 does not help, remove this folder's cuDNN and install one release anew."
                    .into()
            }
            LoadErrorKind::Rejected { error: refusal, .. } | LoadErrorKind::AlreadySelected { refusal } => {
                refusal.help().unwrap_or_else(|| "Install this cuDNN again.".into())
            }
            LoadErrorKind::Dlopen { cause: DlErrorKind::MissingDependency { name }, .. } => missing_library_help(name),
            LoadErrorKind::Dlopen { cause: DlErrorKind::UndefinedSymbol { name, .. }, .. } => {
                format!("Install this cuDNN again: a library beside this one is of another release and lacks {name}.")
            }
            LoadErrorKind::Dlopen { cause: DlErrorKind::MissingVersion { name }, .. } => {
                format!("This system's libraries are older than this cuDNN needs ({name}): install an older cuDNN.")
            }
            LoadErrorKind::Dlopen { cause: DlErrorKind::Other, .. } => {
                "Do what the dynamic linker's words call for; if they blame the file, install this cuDNN again.".into()
            }
            LoadErrorKind::VerificationFailed { .. } => {
                "Start the program again; if that does not help, install this cuDNN again.".into()
            }
            LoadErrorKind::FunctionTooNew { .. } => match self.function {
                Some(function) => format!("Install cuDNN {} or newer.", function.since()),
                None => "Install a newer cuDNN.".into(),
            },
            LoadErrorKind::SymbolMissing { .. } => "Install this cuDNN again: its files are not of one release.".into(),
            LoadErrorKind::PrivateSymbolMissing { .. } => "Install a cuDNN that has it: this one is too old, or too new.".into(),
        }
    }

    /// The first folder that holds something, although nothing that serves. One that cannot even be looked into comes
    /// last: it may have nothing to do with cuDNN.
    fn first_relevant(&self) -> Option<&RejectedCandidate> {
        let notable = || self.rejected().iter().filter(|considered| considered.error.help().is_some());
        let readable = |considered: &&RejectedCandidate| !matches!(considered.error, ProbeError::Unreadable { .. });
        notable().find(readable).or_else(|| notable().next())
    }

    /// What went wrong, in one sentence without the names of function and library.
    fn reason(&self) -> String {
        match self.kind() {
            LoadErrorKind::NoInstallation => match self.first_relevant() {
                Some(RejectedCandidate { candidate, error: refusal }) => {
                    format!("no usable cuDNN 9 was found: the one in {:?} {refusal}", candidate.dir)
                }
                None => "no usable cuDNN 9 was found".into(),
            },
            LoadErrorKind::LibraryMissing => match self.installation() {
                Some(found) => format!("cuDNN {} in {:?} does not include it", found.version, found.dir),
                None => "this cuDNN does not include it".into(),
            },
            LoadErrorKind::Rejected { path, error: refusal } => format!("{path:?} {refusal}"),
            LoadErrorKind::Dlopen { path, cause: fault, .. } => match fault {
                DlErrorKind::MissingDependency { name } => format!("{path:?} needs {name}, which was not found"),
                DlErrorKind::UndefinedSymbol { name, library: Some(library) } => {
                    format!("{path:?} needs the symbol {name}, which {library} lacks: they are of two releases")
                }
                DlErrorKind::UndefinedSymbol { name, library: None } => {
                    format!("{path:?} needs the symbol {name}, which no loaded library has")
                }
                DlErrorKind::MissingVersion { name } => format!("{path:?} needs {name}, which this system lacks"),
                DlErrorKind::Other => format!("the dynamic linker cannot load {path:?}"),
            },
            LoadErrorKind::VerificationFailed { path, what } => format!("{path:?}, once loaded, {what}"),
            LoadErrorKind::FunctionTooNew { installed } => match self.installation() {
                Some(found) => format!("the cuDNN in {:?} is {installed}, and too old for it", found.dir),
                None => format!("this cuDNN is {installed}, and too old for it"),
            },
            LoadErrorKind::SymbolMissing { path } => format!("{path:?} lacks it"),
            LoadErrorKind::PrivateSymbolMissing { name, path } => format!("{path:?} lacks {name}"),
            LoadErrorKind::AlreadySelected { refusal } => match self.installation() {
                Some(found) => format!("the cuDNN in use, in {:?}, {refusal}", found.dir),
                None => format!("the cuDNN in use {refusal}"),
            },
        }
    }
}

/// A status's name, from the table. Not inlined: the table would come along each time.
#[inline(never)]
pub(crate) fn status_name(status: cudnnStatus_t) -> &'static CStr {
    status.name().unwrap_or(c"CUDNN_STATUS_UNKNOWN")
}

/// The status for a library that is refused.
pub(crate) fn status_of(refusal: &ProbeError) -> cudnnStatus_t {
    match refusal {
        ProbeError::MixedVersions { .. } | ProbeError::MixedCuda { .. } | ProbeError::WrongMajor { .. } => {
            SUBLIBRARY_VERSION_MISMATCH
        }
        _ => SUBLIBRARY_LOADING_FAILED,
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function {
            Some(function) => write!(
                f,
                "{function} (in {} since cuDNN {}) cannot be called: {}",
                function.library(),
                function.since(),
                self.reason()
            )?,
            None => write!(f, "{} cannot be used: {}", self.library, self.reason())?,
        }
        if let LoadErrorKind::Dlopen { message, .. } = self.kind() {
            write!(f, "\nThe dynamic linker said: {message}")?;
        }
        // Where the installation is known, what was passed over on the way to it explains why it is this one.
        if !self.rejected().is_empty() {
            f.write_str("\nLooked at, in this order:")?;
            for RejectedCandidate { candidate, error: refusal } in self.rejected() {
                write!(f, "\n  {:?} ({}) {refusal}", candidate.dir, candidate.origin)?;
            }
        }
        if let Some(found) = self.installation() {
            write!(f, "\nIn use: cuDNN {} in {:?} ({})", found.version, found.dir, found.origin)?;
        }
        write!(f, "\nWhat to do: {}", self.help())
    }
}

impl std::error::Error for LoadError {}
