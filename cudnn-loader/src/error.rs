//! Describes load errors: as a value for programs, a report for people, and a status for C.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use cudnn_probe::{
    Component, DEFAULT_CUDA_MAJOR, Installation, Library, NoInstallation, Origin, ProbeError, RUN_DOCTOR,
    RejectedCandidate, Version, one_line, shown_path,
};
use cudnn_sys::types::cudnnStatus_t;

use crate::dl::dlerror::DlErrorKind;
use crate::function::Function;
use crate::names::{CUDNN_PREFIX, DRIVER, loader, search_variable};

/// The statuses that the loader itself returns to C callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureStatus {
    SublibraryVersionMismatch = cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.0 as isize,
    SublibraryLoadingFailed = cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED.0 as isize,
    NotSupported = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED.0 as isize,
    SublibraryUnavailable = cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE.0 as isize,
    InternalError = cudnnStatus_t::CUDNN_STATUS_INTERNAL_ERROR.0 as isize,
}

impl From<FailureStatus> for cudnnStatus_t {
    fn from(status: FailureStatus) -> Self {
        cudnnStatus_t(status as u32)
    }
}

/// An error that occurred while resolving a function or loading a sub-library.
///
/// `{}` prints one line. `{:#}`, `{:?}` and [`LoadError::report`] print the full report: the reason, the fix, ld.so's
/// message, the selected installation, and every directory that was searched and rejected.
#[derive(Clone)]
pub struct LoadError {
    function: Option<Function>,
    library: Library,
    failure: Arc<Failure>,
}

/// A failure, independent of the function that it affects.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: LoadErrorKind,
    pub(crate) installation: Option<Installation>,
    pub(crate) rejected: Arc<Vec<RejectedCandidate>>,
}

/// The kind of failure.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// No directory contains a usable cuDNN 9: see [`LoadError::rejected`].
    NoInstallation,
    /// This sub-library is not part of the installation. For example, `libcudnn_ops.so.9` is missing from JIT-only
    /// installations.
    LibraryMissing,
    /// The file exists, but the loader rejected it without loading it.
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
    /// ld.so loaded a different library than the loader identified on disk.
    VerificationFailed {
        /// The file.
        path: PathBuf,
        /// How they differ.
        mismatch: String,
    },
    /// The installed cuDNN is older than the function.
    FunctionTooNew {
        /// The installed version.
        installed: Version,
    },
    /// The library does not export the function, although libraries of this release should.
    SymbolMissing {
        /// The library.
        path: PathBuf,
    },
    /// The library or a hook forwards the function to another library, which is not cuDNN's.
    SymbolElsewhere {
        /// The library.
        path: PathBuf,
        /// The other library.
        owner: PathBuf,
    },
    /// The library does not export this name, which is not part of cuDNN's public API.
    PrivateSymbolMissing {
        /// The name.
        name: String,
        /// The library.
        path: PathBuf,
    },
    /// This process already uses an installation that does not meet the options.
    AlreadySelected {
        /// The option that is not met.
        error: ProbeError,
    },
}

impl LoadError {
    pub(crate) fn new(library: Library, failure: Arc<Failure>) -> Self {
        LoadError { function: None, library, failure }
    }

    pub(crate) fn with_library(mut self, library: Library) -> Self {
        self.library = library;
        self
    }

    pub(crate) fn with_function(mut self, function: Function) -> Self {
        self.function = Some(function);
        self
    }

    /// Returns the function that was called, if the error belongs to a function call.
    #[must_use]
    pub fn function(&self) -> Option<Function> {
        self.function
    }

    /// Returns the sub-library that failed, which may be a dependency of the function's sub-library.
    #[must_use]
    pub fn library(&self) -> Library {
        self.library
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> &LoadErrorKind {
        &self.failure.kind
    }

    /// Returns the selected installation, or `None` if no installation is selected.
    #[must_use]
    pub fn installation(&self) -> Option<&Installation> {
        self.failure.installation.as_ref()
    }

    /// Returns every directory that was searched and rejected, in search order, with the reason.
    #[must_use]
    pub fn rejected(&self) -> &[RejectedCandidate] {
        &self.failure.rejected
    }

    /// Returns the status that the function returns to C callers for this error:
    ///
    /// - 3009 if the library is not part of the installation
    /// - 3000 if the installation is too old for the function, or the library does not export it
    /// - 1002 if files come from different releases, installations or CUDA major versions, or changed while they were
    ///   loaded
    /// - 1008 otherwise
    pub fn status(&self) -> cudnnStatus_t {
        self.failure_status().into()
    }

    pub(crate) fn failure_status(&self) -> FailureStatus {
        match self.kind() {
            LoadErrorKind::LibraryMissing => FailureStatus::SublibraryUnavailable,
            LoadErrorKind::FunctionTooNew { .. }
            | LoadErrorKind::SymbolMissing { .. }
            | LoadErrorKind::PrivateSymbolMissing { .. } => FailureStatus::NotSupported,
            LoadErrorKind::Dlopen { cause: DlErrorKind::UndefinedSymbol { library: Some(library), .. }, .. }
                if library.starts_with(CUDNN_PREFIX) =>
            {
                FailureStatus::SublibraryVersionMismatch
            }
            LoadErrorKind::VerificationFailed { .. } => FailureStatus::SublibraryVersionMismatch,
            LoadErrorKind::Rejected { error, .. } => status_for(error),
            _ => FailureStatus::SublibraryLoadingFailed,
        }
    }

    /// Returns the fix in one or two sentences, if the failure determines it. Repair commands depend on how cuDNN was
    /// installed; `cudnn-doctor` prints them.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self.kind() {
            LoadErrorKind::NoInstallation => match NoInstallation::blamed(self.rejected()) {
                Some(blamed) if is_conflict(&blamed.error) => ONE_CUDNN.into(),
                _ => return NoInstallation::help(self.rejected()),
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
                "Restart the program: a part of cuDNN was replaced after it was loaded. If that does not help, remove this \
                 cuDNN and install one release again."
                    .into()
            }
            LoadErrorKind::Rejected { error, .. } | LoadErrorKind::AlreadySelected { error } if is_conflict(error) => {
                ONE_CUDNN.into()
            }
            LoadErrorKind::Dlopen { cause: DlErrorKind::Intercepted { by: Some(by), .. }, .. } => {
                format!("Run the program without {}, for example by removing it from LD_PRELOAD.", shown_path(by))
            }
            LoadErrorKind::Dlopen { cause: DlErrorKind::MissingDependency { name }, .. } => return install_help(name),
            LoadErrorKind::VerificationFailed { .. } => {
                "Restart the program. If that does not help, reinstall this cuDNN.".into()
            }
            LoadErrorKind::FunctionTooNew { .. } => match self.function {
                Some(function) => format!("Install cuDNN {} or newer.", function.since()),
                None => "Install a newer cuDNN.".into(),
            },
            LoadErrorKind::PrivateSymbolMissing { .. } => {
                "Install a cuDNN release that exports this name: this one is too old or too new.".into()
            }
            LoadErrorKind::Rejected { .. }
            | LoadErrorKind::AlreadySelected { .. }
            | LoadErrorKind::Dlopen { .. }
            | LoadErrorKind::SymbolElsewhere { .. }
            | LoadErrorKind::SymbolMissing { .. } => return None,
        })
    }

    /// Returns the full report, which has several lines. The first line is a complete message.
    #[must_use]
    pub fn report(&self) -> String {
        let help = self.help().map(|help| one_line(&help) + " ").unwrap_or_default();
        self.report_with(&format!("{help}{RUN_DOCTOR}"))
    }

    /// Returns the full report with the given help text.
    #[must_use]
    pub fn report_with(&self, help: &str) -> String {
        // The help comes early because callers of cudnnGetLastErrorString pass short buffers.
        let mut text = format!("{self}\nhelp: {}", help.trim_end());
        if let LoadErrorKind::Dlopen { message, .. } = self.kind() {
            let _ = write!(text, "\nnote: {} reports: {}", loader!(), one_line(message));
        }
        if let Some(installation) = self.installation() {
            let Installation { version, dir, origin, .. } = installation;
            let _ = write!(text, "\nnote: selected: cuDNN {version} in {} ({origin})", shown_path(dir));
        }
        // With a selected installation, the rejected directories explain the selection.
        text + &NoInstallation::note(self.rejected())
    }

    /// Returns the failure in one sentence, without the function's name.
    fn reason(&self) -> String {
        match self.kind() {
            LoadErrorKind::NoInstallation => NoInstallation::reason(self.rejected()),
            LoadErrorKind::LibraryMissing => match self.installation() {
                Some(Installation { version, dir, .. }) => {
                    format!("cuDNN {version} in {} does not include {}", shown_path(dir), self.library)
                }
                None => format!("this cuDNN does not include {}", self.library),
            },
            LoadErrorKind::Rejected { path, error } => format!("{} {error}", shown_path(path)),
            LoadErrorKind::Dlopen { path, cause, .. } => match cause {
                DlErrorKind::MissingDependency { name } => {
                    format!("{} needs {name}, which {} did not find", shown_path(path), loader!())
                }
                DlErrorKind::UndefinedSymbol { name, library: Some(library) } => {
                    format!(
                        "{} needs the symbol {name}, which is missing from {library}: the two are from different releases",
                        shown_path(path)
                    )
                }
                DlErrorKind::UndefinedSymbol { name, library: None } => {
                    format!("{} needs the symbol {name}, which no loaded library has", shown_path(path))
                }
                DlErrorKind::MissingVersion { name } => {
                    format!("{} needs {name}, which this system's libraries do not provide", shown_path(path))
                }
                DlErrorKind::Intercepted { opened, by } => {
                    let opened = opened.as_ref().map_or("nothing".into(), |opened| shown_path(opened).to_string());
                    let by = by.as_ref().map_or(String::new(), |by| format!(", which {} replaces,", shown_path(by)));
                    format!("dlopen{by} opened {opened} instead of {}", shown_path(path))
                }
                DlErrorKind::Other => format!("{} cannot load {}", loader!(), shown_path(path)),
            },
            LoadErrorKind::VerificationFailed { path, mismatch } => {
                format!("after loading, {} {mismatch}", shown_path(path))
            }
            LoadErrorKind::FunctionTooNew { installed } => {
                let since = self.function.map_or(String::new(), |function| format!(" (it needs {})", function.since()));
                match self.installation() {
                    Some(Installation { dir, .. }) => {
                        format!("cuDNN {installed} in {} is older than this function{since}", shown_path(dir))
                    }
                    None => format!("cuDNN {installed} is older than this function{since}"),
                }
            }
            LoadErrorKind::SymbolElsewhere { path, owner } => {
                format!("{} exports it from {}", shown_path(path), shown_path(owner))
            }
            LoadErrorKind::SymbolMissing { path } => {
                format!("{} does not export it, although its release should", shown_path(path))
            }
            LoadErrorKind::PrivateSymbolMissing { name, path } => {
                format!("{} does not export {name:?}", shown_path(path))
            }
            LoadErrorKind::AlreadySelected { error } => match self.installation() {
                Some(Installation { dir, .. }) => {
                    format!("this process already uses the cuDNN in {}, which {error}", shown_path(dir))
                }
                None => format!("this process already uses a cuDNN that {error}"),
            },
        }
    }
}

const ONE_CUDNN: &str =
    "A process can use one cuDNN: request the same directory everywhere, before anything loads another.";

/// Returns whether the error concerns the state of this process rather than an installation.
fn is_conflict(error: &ProbeError) -> bool {
    matches!(error, ProbeError::OtherLoaded { .. } | ProbeError::OtherRequested { .. })
}

/// Returns how to install a dependency from outside cuDNN.
fn install_help(name: &str) -> Option<String> {
    if name == DRIVER {
        return Some("Install NVIDIA's driver, which contains this library.".into());
    }
    let (component, cuda) = Component::from_soname(name).filter(|(component, _)| *component != Component::Cudnn)?;
    let wheel = component.wheel(cuda.unwrap_or(DEFAULT_CUDA_MAJOR));
    let variable = search_variable!();
    Some(format!("Install {component} (for example the wheel {wheel}), or put its directory on {variable}."))
}

/// Returns the name of a status, or the text of NVIDIA's shim for an unknown one. Not inlined, because every copy would
/// contain the table.
#[inline(never)]
pub(crate) fn status_name(status: cudnnStatus_t) -> &'static CStr {
    status.name().unwrap_or(c"CUDNN_UNKNOWN_STATUS")
}

/// Returns the status for a rejected library.
pub(crate) fn status_for(error: &ProbeError) -> FailureStatus {
    match error {
        ProbeError::MixedVersions { .. }
        | ProbeError::MixedCuda { .. }
        | ProbeError::OtherRelease { .. }
        | ProbeError::OtherInstallation { .. }
        | ProbeError::WrongMajor { .. } => FailureStatus::SublibraryVersionMismatch,
        _ => FailureStatus::SublibraryLoadingFailed,
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

/// Prints the full report, because `main` uses `Debug` when it returns the error.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

/// Has no source, because the text contains the reason. [`LoadError::kind`] returns it as a value.
impl std::error::Error for LoadError {}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use cudnn_probe::{Candidate, DIR_VARIABLE, Os};

    use super::*;

    /// Selects the expected text for the current operating system.
    fn per_os(linux: &'static str, windows: &'static str) -> &'static str {
        match Os::HOST {
            Os::Windows => windows,
            _ => linux,
        }
    }

    fn error(kind: LoadErrorKind, origin: Option<Origin>, rejected: Vec<RejectedCandidate>) -> LoadError {
        let release = Version::new(9, 19, 0);
        let installed = |origin| Installation::from_loaded("/cudnn".into(), origin, release, Some(13));
        let failure = Failure { kind, installation: origin.map(installed), rejected: Arc::new(rejected) };
        LoadError::new(Library::Ops, Arc::new(failure))
    }

    fn rejected(error: ProbeError) -> LoadErrorKind {
        LoadErrorKind::Rejected { path: "/cudnn/file".into(), error }
    }

    fn dlopen(cause: DlErrorKind) -> LoadErrorKind {
        LoadErrorKind::Dlopen { path: "/cudnn/file".into(), cause, message: "of the system".into() }
    }

    #[test]
    fn every_failure_maps_to_a_status_a_reason_and_help() {
        let (old, new) = (Version::new(9, 10, 2), Version::new(9, 19, 0));
        let mixed = || rejected(ProbeError::MixedVersions { found: old, graph: new });
        let symbol = |library: Option<&str>| {
            dlopen(DlErrorKind::UndefinedSymbol { name: "s".into(), library: library.map(str::to_owned) })
        };
        let cases = [
            (
                LoadErrorKind::LibraryMissing,
                3009,
                per_os("does not include libcudnn_ops.so.9", "does not include cudnn_ops64_9.dll"),
                "the wheel nvidia-cudnn-cu13)",
            ),
            (mixed(), 1002, "\"/cudnn/file\" is cuDNN 9.10.2, but", ""),
            (
                rejected(ProbeError::MixedCuda { found: 12, graph: 13, also: Vec::new() }),
                1002,
                "is built for CUDA 12",
                "",
            ),
            (rejected(ProbeError::OtherRelease { missing: Vec::new() }), 1002, "is from a different release", ""),
            (
                rejected(ProbeError::OtherInstallation { graph: "/other".into() }),
                1002,
                per_os(
                    "does not belong to the libcudnn_graph.so.9 in \"/other\"",
                    "does not belong to the cudnn_graph64_9.dll in \"/other\"",
                ),
                "",
            ),
            (rejected(ProbeError::WrongMajor { found: Version::new(8, 9, 7) }), 1002, "is cuDNN 8.9.7", ""),
            (rejected(ProbeError::UnknownFormat { starts_with: Vec::new() }), 1008, "is empty", ""),
            (rejected(ProbeError::NotInRelease { version: new }), 1008, "is left over", ""),
            (rejected(ProbeError::NotFound), 1008, "does not exist", ""),
            (
                dlopen(DlErrorKind::MissingDependency { name: per_os("libz.so.1", "zlibwapi.dll").into() }),
                1008,
                per_os(
                    "\"/cudnn/file\" needs libz.so.1, which ld.so did not find",
                    "\"/cudnn/file\" needs zlibwapi.dll, which Windows did not find",
                ),
                "",
            ),
            (
                symbol(Some(per_os("libcudnn_graph.so.9", "cudnn_graph64_9.dll"))),
                1002,
                per_os("s, which is missing from libcudnn_graph.so.9", "s, which is missing from cudnn_graph64_9.dll"),
                "",
            ),
            (
                symbol(Some(per_os("libstdc++.so.6", "MSVCP140.dll"))),
                1008,
                per_os("s, which is missing from libstdc++.so.6", "s, which is missing from MSVCP140.dll"),
                "",
            ),
            (symbol(None), 1008, "s, which no loaded library has", ""),
            (dlopen(DlErrorKind::MissingVersion { name: "V".into() }), 1008, "needs V, which this system's", ""),
            (
                dlopen(DlErrorKind::Other),
                1008,
                per_os("ld.so cannot load \"/cudnn/file\"", "Windows cannot load \"/cudnn/file\""),
                "",
            ),
            (
                LoadErrorKind::VerificationFailed { path: "/cudnn/file".into(), mismatch: "is a second copy".into() },
                1002,
                "after loading, \"/cudnn/file\" is a second copy",
                "Restart the program.",
            ),
            (
                LoadErrorKind::FunctionTooNew { installed: new },
                3000,
                "cuDNN 9.19.0 in \"/cudnn\" is older than this function",
                "Install a newer cuDNN.",
            ),
            (
                LoadErrorKind::SymbolMissing { path: "/cudnn/file".into() },
                3000,
                "\"/cudnn/file\" does not export it, although its release should",
                "",
            ),
            (
                LoadErrorKind::AlreadySelected { error: ProbeError::TooOld { found: old, wanted: new } },
                1008,
                "this process already uses the cuDNN in \"/cudnn\", which is cuDNN 9.10.2, but 9.19.0 or newer is required",
                "",
            ),
            (
                LoadErrorKind::AlreadySelected { error: ProbeError::OtherRequested { wanted: "/other".into() } },
                1008,
                "this process already uses the cuDNN in \"/cudnn\", which is already in use",
                "A process can use one cuDNN",
            ),
        ];
        for (kind, status, reason, help) in cases {
            let message = matches!(kind, LoadErrorKind::Dlopen { .. });
            let error = error(kind, Some(Origin::WellKnown), Vec::new());
            let report = error.report();
            assert_eq!(error.status().0, status, "{report}");
            let line = error.to_string();
            let start = per_os("libcudnn_ops.so.9 cannot be loaded: ", "cudnn_ops64_9.dll cannot be loaded: ");
            assert!(line.starts_with(start) && line.contains(reason), "{reason}: {line}");
            let found = error.help().map(|help| help + " ").unwrap_or_default();
            assert!(found.contains(help) && found.is_empty() == help.is_empty(), "{help}: {report}");
            assert!(report.contains(&format!("{line}\nhelp: {found}{RUN_DOCTOR}")), "{report}");
            assert!(error.report_with("other").contains(&format!("{line}\nhelp: other")), "{report}");
            let note = per_os("\nnote: ld.so reports: of the system", "\nnote: Windows reports: of the system");
            assert_eq!(report.contains(note), message, "{report}");
            assert!(error.source().is_none(), "a chain of errors would repeat the reason: {report}");
        }
        // This help applies only to a library that the program had loaded before.
        let replaced = error(mixed(), Some(Origin::Loaded), Vec::new());
        assert!(replaced.report().contains("help: Restart the program: a part of cuDNN was replaced"), "{replaced:?}");
        let installed = error(
            rejected(ProbeError::MixedCuda { found: 12, graph: 13, also: Vec::new() }),
            Some(Origin::Loaded),
            Vec::new(),
        );
        assert_eq!(installed.help(), None, "{installed:?}");
    }

    #[test]
    fn errors_name_the_function_or_the_private_symbol() {
        let too_new = || error(LoadErrorKind::FunctionTooNew { installed: Version::new(9, 0, 0) }, None, Vec::new());
        let function = Function::CudnnGetCudartVersion;
        let with_function = too_new().with_function(function);
        assert_eq!((too_new().function(), with_function.function()), (None, Some(function)));
        let since = function.since();
        let line = format!("{function} cannot be called: cuDNN 9.0.0 is older than this function (it needs {since})");
        assert_eq!(with_function.to_string(), line);
        assert_eq!(with_function.help(), Some(format!("Install cuDNN {since} or newer.")));
        let private = LoadErrorKind::PrivateSymbolMissing { name: "s".into(), path: "/cudnn/file".into() };
        let private = error(private, None, Vec::new());
        assert_eq!(private.to_string(), "\"/cudnn/file\" does not export \"s\"");
        assert_eq!(private.status().0, 3000);
    }

    #[test]
    fn missing_dependencies_name_the_package_to_install() {
        for (name, help) in [
            (
                per_os("libcublasLt.so.12", "cublasLt64_12.dll"),
                Some(per_os(
                    "Install cuBLAS (for example the wheel nvidia-cublas-cu12), or put its directory on LD_LIBRARY_PATH.",
                    "Install cuBLAS (for example the wheel nvidia-cublas-cu12), or put its directory on PATH.",
                )),
            ),
            (DRIVER, Some("Install NVIDIA's driver, which contains this library.")),
            (per_os("libcudnn_engines_precompiled.so.9", "cudnn_engines_precompiled64_9.dll"), None),
            (per_os("libother.so.2", "other.dll"), None),
        ] {
            let missing = dlopen(DlErrorKind::MissingDependency { name: name.into() });
            let error = error(missing, Some(Origin::WellKnown), Vec::new());
            assert_eq!(error.help().as_deref(), help, "{name}");
            assert!(error.report().contains(RUN_DOCTOR), "{error:?}");
        }
    }

    /// The error blames an explicitly named directory for any problem. Among other directories, it blames the first
    /// with a part of cuDNN.
    #[test]
    fn missing_installations_blame_the_most_relevant_directory() {
        let variable = || Origin::Variable(DIR_VARIABLE.into());
        let one = |origin, error| RejectedCandidate::new(Candidate::new("/a", origin), error);
        let other = |error| RejectedCandidate::new(Candidate::new("/b", Origin::LibraryPath), error);
        let empty = || ProbeError::UnknownFormat { starts_with: Vec::new() };
        let unreadable =
            || ProbeError::Unreadable { error: std::sync::Arc::new(std::io::ErrorKind::PermissionDenied.into()) };
        let install = "Install cuDNN (the wheel nvidia-cudnn-cu12), or set CUDNN_LOADER_DIR to the directory";
        for (rejected, blamed, help) in [
            (Vec::new(), "", install),
            (vec![one(Origin::WellKnown, ProbeError::NotFound)], "", install),
            (
                vec![one(Origin::Explicit, ProbeError::NotFound)],
                ": \"/a\" (requested by the program) does not exist",
                "Pass the absolute path",
            ),
            (
                vec![one(variable(), ProbeError::NotFound)],
                ": \"/a\" (set by CUDNN_LOADER_DIR) does not exist",
                "Set CUDNN_LOADER_DIR to the absolute path",
            ),
            (
                vec![one(variable(), empty())],
                per_os(
                    ": \"/a/libcudnn_graph.so.9\" (set by CUDNN_LOADER_DIR) is empty",
                    r#": "/a\cudnn_graph64_9.dll" (set by CUDNN_LOADER_DIR) is empty"#,
                ),
                "Run `cudnn-doctor check`",
            ),
            (
                vec![one(Origin::WellKnown, ProbeError::NotFound), other(empty())],
                per_os(": \"/b/libcudnn_graph.so.9\" is empty", r#": "/b\cudnn_graph64_9.dll" is empty"#),
                "Run `cudnn-doctor check`",
            ),
            // The unreadable directory may be unrelated to cuDNN.
            (
                vec![one(Origin::WellKnown, unreadable()), other(empty())],
                per_os(": \"/b/libcudnn_graph.so.9\" is empty", r#": "/b\cudnn_graph64_9.dll" is empty"#),
                "Run `cudnn-doctor check`",
            ),
            (
                vec![one(Origin::WellKnown, unreadable())],
                per_os(
                    ": \"/a/libcudnn_graph.so.9\" cannot be read: permission denied",
                    r#": "/a\cudnn_graph64_9.dll" cannot be read: permission denied"#,
                ),
                "Run `cudnn-doctor check`",
            ),
        ] {
            let count = rejected.len();
            let error = error(LoadErrorKind::NoInstallation, None, rejected);
            let start = per_os("libcudnn_ops.so.9 cannot be loaded", "cudnn_ops64_9.dll cannot be loaded");
            assert_eq!(error.to_string(), format!("{start}: no usable cuDNN 9 found{blamed}"));
            assert!(error.report().contains(&format!("\nhelp: {help}")), "{help}: {error:?}");
            assert!(error.source().is_none(), "{error:?}");
            assert_eq!(error.report().matches("\n  \"/").count(), count, "{error:?}");
        }
    }
}
