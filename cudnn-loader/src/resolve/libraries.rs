//! The sub-libraries of the selected installation: each is checked on disk, loaded after its dependencies, verified in
//! memory, and kept. From a loaded library comes a function's address.
//!
//! [`Attempts`] shares each library, so the loader has no lock while ld.so works.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Installation, ProbeError, Version, shown_path};

use super::attempts::{Attempts, Shared, When};
use super::installation::{dir_of, failure, forget_failed_search, forget_search, is_in, last_search, select, selected};
use super::{graph_plugins, in_memory};
use crate::dl::dlerror::OpenError;
use crate::dl::objects::LoadedObjects;
use crate::dl::{self, Handle};
use crate::error::{Failure, LoadError, LoadErrorKind};
use crate::events::{Event, emit};
use crate::function::Function;
use crate::options::Options;
use crate::sub_library::SubLibrary;

/// A sub-library that is loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedLibrary {
    /// The sub-library.
    pub library: SubLibrary,
    /// The file, as the system's loader names it.
    pub path: PathBuf,
    /// The version, verified in memory; `None` for the sub-libraries that state none (cnn and ext).
    pub version: Option<Version>,
    /// The time to check, load and verify the library, without its dependencies.
    pub duration: Duration,
    /// When that was done.
    loaded_at: Instant,
    /// The installation that it belongs to.
    installation: &'static Installation,
    handle: Handle,
    /// Only graph has these.
    graph_functions: Option<GraphFunctions>,
}

impl LoadedLibrary {
    /// How long it has been loaded.
    pub(crate) fn age(&self) -> Duration {
        self.loaded_at.elapsed()
    }
}

/// cuDNN's implementations of the functions that this crate answers itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphFunctions {
    pub(crate) get_error_string: *mut c_void,
    pub(crate) get_last_error_string: *mut c_void,
    pub(crate) set_callback: *mut c_void,
}

// SAFETY: addresses of functions, which any thread may call.
unsafe impl Send for GraphFunctions {}
// SAFETY: as above.
unsafe impl Sync for GraphFunctions {}

static LIBRARIES: [Attempts<LoadedLibrary>; SubLibrary::ALL.len()] =
    [const { Attempts::new(false) }; SubLibrary::ALL.len()];

fn attempts(library: SubLibrary) -> Option<&'static Attempts<LoadedLibrary>> {
    LIBRARIES.get(library as usize)
}

/// The library, if it is loaded.
pub(crate) fn loaded(library: SubLibrary) -> Option<&'static LoadedLibrary> {
    attempts(library)?.success()
}

/// cuDNN's implementations, if graph is loaded. Does not call ld.so, which another thread may keep busy.
pub(crate) fn graph_functions() -> Option<GraphFunctions> {
    loaded(SubLibrary::Graph)?.graph_functions
}

/// The CUDA major of the loaded graph library.
pub(crate) fn cuda_major() -> Option<u32> {
    in_memory::cuda_major(&loaded(SubLibrary::Graph)?.handle)
}

/// Lets the next use of a sub-library try again what failed.
pub(crate) fn clear_failure(library: SubLibrary) {
    forget_failures(library, When::Now);
}

fn forget_failures(library: SubLibrary, when: When) {
    for library in load_order(library) {
        // Before the failure, so that it is no later search.
        let search = last_search();
        if let Some(attempts) = attempts(library)
            && let Some(failed) = attempts.failed(when)
        {
            // Without graph nothing uses the installation: the next search may select another. It comes first, so that
            // whoever loads graph again takes it from there.
            if library == SubLibrary::Graph
                && let Some(search) = search
            {
                forget_search(search);
            }
            attempts.forget(failed);
        }
    }
    forget_failed_search(when);
}

/// The address of cuDNN's function.
pub(crate) fn address(function: Function) -> Result<*mut (), LoadError> {
    let library = load(function.library()).map_err(|error| match error.kind() {
        // The installation is older than the library. The function is then too new, and its error names its first
        // release. A file of that library may be left over from a newer installation.
        LoadErrorKind::LibraryMissing => too_new(function).unwrap_or(error),
        _ => error,
    });
    let library = library.map_err(|error| error.of_function(function))?;
    library.handle.symbol(function.symbol()).map(|address| address.cast()).ok_or_else(|| {
        let missing = || LoadErrorKind::SymbolMissing { path: library.path.clone() };
        too_new(function)
            .unwrap_or_else(|| LoadError::new(function.library(), failure(missing())))
            .of_function(function)
    })
}

/// The address of any symbol in a sub-library.
pub(crate) fn symbol(library: SubLibrary, name: &CStr) -> Result<*const c_void, LoadError> {
    let loaded = load(library)?;
    loaded.handle.symbol(name).map(<*mut c_void>::cast_const).ok_or_else(|| {
        let name = name.to_string_lossy().into_owned();
        LoadError::new(library, failure(LoadErrorKind::PrivateSymbolMissing { name, path: loaded.path.clone() }))
    })
}

/// The error of a function that is newer than the installation.
fn too_new(function: Function) -> Option<LoadError> {
    let installed = selected()?.installation.version;
    let kind = LoadErrorKind::FunctionTooNew { installed };
    (installed < function.since()).then(|| LoadError::new(function.library(), failure(kind)))
}

/// Selects an installation that meets the options and loads its graph library. Tries again what failed before.
pub(crate) fn load_installation(options: &Options) -> Result<&'static Installation, LoadError> {
    clear_failure(SubLibrary::Graph);
    let installation = select(Some(options))?;
    // The active installation may have been selected with other options: check it against these. Its graph library
    // states the CUDA major once it is loaded.
    let mut active = installation.clone();
    active.cuda_major = cuda_major().or(installation.cuda_major);
    options
        .check(&active)
        .map_err(|error| LoadError::new(SubLibrary::Graph, failure(LoadErrorKind::AlreadySelected { error })))?;
    load(SubLibrary::Graph)?;
    Ok(installation)
}

/// The sub-library after graph and its other dependencies, in the order in which to load them. ext does not depend on
/// graph, but a graph library that is refused means that the installation is.
fn load_order(library: SubLibrary) -> impl Iterator<Item = SubLibrary> {
    let comes_before = move |other: &SubLibrary| {
        *other != library
            && (*other == SubLibrary::Graph || library.library().dependencies().contains(&other.library()))
    };
    SubLibrary::ALL.iter().copied().filter(comes_before).chain([library])
}

/// Loads a sub-library after its dependencies.
pub(crate) fn load(library: SubLibrary) -> Result<&'static LoadedLibrary, LoadError> {
    forget_failures(library, When::Due);
    let installation = select(None).map_err(|error| error.of_library(library))?;
    let mut last = None;
    for library in load_order(library) {
        let Some(attempts) = attempts(library) else { continue };
        let outcome = attempts.get_or_try(|| {
            // Another thread may have selected again. What is loaded decides.
            let graph = loaded(SubLibrary::Graph).map(|graph| graph.installation);
            let installation = graph.or_else(|| select(None).ok()).unwrap_or(installation);
            let outcome = load_library(installation, library);
            match &outcome {
                Ok(LoadedLibrary { path, duration, .. }) => {
                    emit(&Event::Loaded { library, path, duration: *duration });
                }
                Err(failure) => emit(&Event::LoadFailed { error: &LoadError::new(library, failure.clone()) }),
            }
            outcome
        });
        last = Some(outcome.as_ref().map_err(|failure| LoadError::new(library, failure.clone()))?);
    }
    last.ok_or_else(|| LoadError::new(library, failure(LoadErrorKind::LibraryMissing)))
}

fn load_library(installation: &'static Installation, library: SubLibrary) -> Shared<LoadedLibrary> {
    let start = Instant::now();
    let (path, handle, is_new) = load_or_adopt(installation, library).map_err(failure_to_load)?;
    let version = verify_loaded(installation, library, &handle)
        .map_err(|mismatch| failure(LoadErrorKind::VerificationFailed { path: path.clone(), mismatch }))?;
    let mut functions = None;
    if library == SubLibrary::Graph {
        graph_plugins::ensure_own_plugins(installation, in_memory::cuda_major(&handle)).map_err(failure)?;
        let function = |function: Function| handle.symbol(function.symbol());
        functions = function(Function::CudnnGetErrorString)
            .zip(function(Function::CudnnGetLastErrorString))
            .zip(function(Function::CudnnSetCallback))
            .map(|((get_error_string, get_last_error_string), set_callback)| GraphFunctions {
                get_error_string,
                get_last_error_string,
                set_callback,
            });
        // An adopted library gets the callback outside `catch_unwind` (`guard`): the program's may throw.
        if let Some(GraphFunctions { set_callback, .. }) = functions.filter(|_| is_new) {
            emit(&Event::GraphOpened { set_callback });
        }
    }
    Ok(LoadedLibrary {
        library,
        path,
        version,
        duration: start.elapsed(),
        loaded_at: Instant::now(),
        installation,
        handle,
        graph_functions: functions,
    })
}

/// A failure that knows the CUDA version of the installation, for which the error names a wheel.
fn failure_to_load(kind: LoadErrorKind) -> Arc<Failure> {
    let is_missing = matches!(kind, LoadErrorKind::LibraryMissing);
    let mut failure = failure(kind);
    if is_missing && let Some(Failure { installation: Some(found), .. }) = Arc::get_mut(&mut failure) {
        found.cuda_major = cuda_major().or(found.cuda_major).or_else(|| found.cuda_major_from_gpu_code());
    }
    failure
}

/// Adopts the library if the process has loaded it from the installation already; otherwise checks the file and loads
/// it. Also returns whether it is new.
fn load_or_adopt(installation: &Installation, library: SubLibrary) -> Result<(PathBuf, Handle, bool), LoadErrorKind> {
    // Such a file is left over from a newer release, even if the process has loaded it.
    if !has_library(installation.version, library.library()) {
        return Err(LoadErrorKind::LibraryMissing);
    }
    if let Some(object) = LoadedObjects::snapshot().find(library.file_name()) {
        if is_in(&object.path, &installation.dir) {
            return Ok((object.path, object.handle, false));
        }
        return Err(LoadErrorKind::Rejected {
            path: installation.path(library.library()),
            error: ProbeError::OtherLoaded {
                loaded: dir_of(&object.path),
                loaded_version: in_memory::version(&object.handle, library.library()),
                version: Some(installation.version),
            },
        });
    }
    let path = installation.path(library.library());
    // The selection has already read graph's file; loaded, graph also states the CUDA major.
    if library != SubLibrary::Graph {
        let mut expected = installation.clone();
        expected.cuda_major =
            cuda_major().or(installation.cuda_major).or_else(|| installation.cuda_major_from_gpu_code());
        expected.check(library.library()).map_err(|error| match error {
            ProbeError::NotFound => LoadErrorKind::LibraryMissing,
            error => {
                let (path, error) = expected.blame(library.library(), error);
                LoadErrorKind::Rejected { path, error }
            }
        })?;
    }
    emit(&Event::Loading { library, path: &path });
    match dl::open(&path) {
        Ok(handle) => Ok((path, handle, true)),
        Err(OpenError { cause, message }) => Err(LoadErrorKind::Dlopen { path, cause, message }),
    }
}

/// Compares the loaded library with its file, and returns the version in memory.
///
/// # Errors
/// The difference, as a predicate of the file.
fn verify_loaded(installation: &Installation, library: SubLibrary, handle: &Handle) -> Result<Option<Version>, String> {
    // Another thread may have loaded another copy at the same time.
    let object = LoadedObjects::snapshot().find(library.file_name());
    if let Some(first) = object.filter(|first| first.handle != *handle) {
        return Err(format!("is a second copy: the process has loaded {} first", shown_path(&first.path)));
    }
    if library.library().version_symbol().is_none() {
        return Ok(None);
    }
    match in_memory::version(handle, library.library()) {
        None => Err("does not state its version any more".into()),
        Some(found) if found != installation.version => {
            Err(format!("is cuDNN {found}, but the installation is {}", installation.version))
        }
        found => Ok(found),
    }
}
