//! Loads the sub-libraries of the selected installation and looks up functions in them. A library is checked on disk,
//! loaded after all dependencies, verified in memory, and cached.
//!
//! The loader holds no lock while ld.so runs, because [`Attempts`] shares the results between threads.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudnn_os::functions::pointer_as;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Installation, Library, ProbeError, Version, shown_path};

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

/// A loaded library of cuDNN.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedLibrary {
    /// Which library it is.
    pub library: Library,
    /// The path of the file, as reported by the system's loader.
    pub path: PathBuf,
    /// The version, verified in memory; `None` for libraries without a [version symbol](Library::version_symbol).
    pub version: Option<Version>,
    /// The time to check, load and verify the library, excluding dependencies.
    pub duration: Duration,
    /// The time of the verification.
    loaded_at: Instant,
    /// The installation that the library belongs to.
    installation: &'static Installation,
    handle: Handle,
    /// Set only for graph.
    graph_functions: Option<GraphFunctions>,
}

impl LoadedLibrary {
    /// Returns the address of a function or data symbol in the library. The symbol may be missing from these bindings,
    /// for example because a newer cuDNN added it or because no header declares it.
    ///
    /// # Errors
    /// Fails if the library does not export the name.
    pub fn symbol(&self, name: &CStr) -> Result<*const c_void, LoadError> {
        self.handle.symbol(name).map(<*mut c_void>::cast_const).ok_or_else(|| {
            let name = name.to_string_lossy().into_owned();
            let missing = LoadErrorKind::PrivateSymbolMissing { name, path: self.path.clone() };
            LoadError::new(self.library, failure(missing))
        })
    }

    /// Like [`LoadedLibrary::symbol`], but returns a pointer of type `P`.
    ///
    /// # Errors
    /// See [`LoadedLibrary::symbol`].
    ///
    /// # Safety
    /// `P` is a pointer type that matches the symbol: a function pointer of the right signature, or a pointer to data
    /// of the right type.
    pub unsafe fn get<P: Copy>(&self, name: &CStr) -> Result<P, LoadError> {
        // SAFETY: the caller's obligation, passed on.
        self.symbol(name).map(|address| unsafe { pointer_as(address) })
    }

    /// Returns how long the library has been loaded.
    pub(crate) fn age(&self) -> Duration {
        self.loaded_at.elapsed()
    }
}

/// cuDNN's own versions of functions that this crate also implements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphFunctions {
    pub(crate) get_error_string: *mut c_void,
    pub(crate) get_last_error_string: *mut c_void,
    pub(crate) set_callback: *mut c_void,
}

// SAFETY: these are addresses of functions, which may be called from any thread.
unsafe impl Send for GraphFunctions {}
// SAFETY: as above.
unsafe impl Sync for GraphFunctions {}

static LIBRARIES: [Attempts<LoadedLibrary>; Library::ALL.len()] = [const { Attempts::new(false) }; Library::ALL.len()];

fn attempts(library: Library) -> Option<&'static Attempts<LoadedLibrary>> {
    LIBRARIES.get(library as usize)
}

/// Returns the library if this crate has loaded it. Never loads it.
#[must_use]
pub fn loaded(library: Library) -> Option<&'static LoadedLibrary> {
    attempts(library)?.success()
}

/// Returns cuDNN's implementations, if graph is loaded. Never calls ld.so, because another thread may hold ld.so's
/// lock.
pub(crate) fn graph_functions() -> Option<GraphFunctions> {
    loaded(Library::Graph)?.graph_functions
}

/// Returns the CUDA major version of the loaded graph library.
pub(crate) fn cuda_major() -> Option<u32> {
    in_memory::cuda_major(&loaded(Library::Graph)?.handle)
}

/// Discards the cached failures of a sub-library and makes the next use retry.
pub(crate) fn clear_failure(library: Library) {
    forget_failures(library, When::Now);
}

fn forget_failures(library: Library, when: When) {
    for library in load_order(library) {
        // Read before the failure, to exclude later searches.
        let search = last_search();
        if let Some(attempts) = attempts(library)
            && let Some(failed) = attempts.failed(when)
        {
            // Without graph, the installation is unused, and the next search may select a different one. Discard the
            // search first, because the next load of graph must use the new selection.
            if library == Library::Graph
                && let Some(search) = search
            {
                forget_search(search);
            }
            attempts.forget(failed);
        }
    }
    forget_failed_search(when);
}

/// Returns the address of cuDNN's function.
pub(crate) fn address(function: Function) -> Result<*mut (), LoadError> {
    let library = load(function.library()).map_err(|error| match error.kind() {
        // The installation is older than this library. The error should name the function's first release. If a newer
        // installation left the library's file behind, it must not be used either.
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

/// Returns the error for a function that is newer than the installation, if it is.
fn too_new(function: Function) -> Option<LoadError> {
    let installed = selected()?.installation.version;
    let kind = LoadErrorKind::FunctionTooNew { installed };
    (installed < function.since()).then(|| LoadError::new(function.library(), failure(kind)))
}

/// Selects an installation that meets the options and loads the graph library. Retries after earlier failures.
pub(crate) fn load_installation(options: &Options) -> Result<&'static Installation, LoadError> {
    clear_failure(Library::Graph);
    let installation = select(Some(options))?;
    // Check the active installation, because it may have been selected with different options. Once graph is loaded,
    // the CUDA major version is known.
    let mut active = installation.clone();
    active.cuda_major = cuda_major().or(installation.cuda_major);
    options
        .check(&active)
        .map_err(|error| LoadError::new(Library::Graph, failure(LoadErrorKind::AlreadySelected { error })))?;
    load(Library::Graph)?;
    Ok(installation)
}

/// Returns graph, the other dependencies and the sub-library itself, in loading order. ext does not depend on graph,
/// but a rejected graph library means that the installation is unusable.
fn load_order(library: Library) -> impl Iterator<Item = Library> {
    let comes_before = move |other: &Library| {
        *other != library && (*other == Library::Graph || library.dependencies().contains(other))
    };
    Library::ALL.iter().copied().filter(comes_before).chain([library])
}

/// Loads a sub-library, dependencies first.
pub(crate) fn load(library: Library) -> Result<&'static LoadedLibrary, LoadError> {
    forget_failures(library, When::Due);
    let installation = select(None).map_err(|error| error.of_library(library))?;
    let mut last = None;
    for library in load_order(library) {
        let Some(attempts) = attempts(library) else { continue };
        let outcome = attempts.get_or_try(|| {
            // Another thread may have changed the selection. An already loaded graph library determines the
            // installation.
            let graph = loaded(Library::Graph).map(|graph| graph.installation);
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

fn load_library(installation: &'static Installation, library: Library) -> Shared<LoadedLibrary> {
    let start = Instant::now();
    let (path, handle, is_new) = load_or_adopt(installation, library).map_err(failure_to_load)?;
    let version = verify_loaded(installation, library, &handle)
        .map_err(|mismatch| failure(LoadErrorKind::VerificationFailed { path: path.clone(), mismatch }))?;
    let mut functions = None;
    if library == Library::Graph {
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
        // For an adopted library, the callback is installed outside `catch_unwind` (see `guard`), because the program's
        // own callback may throw.
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

/// Creates a failure that includes the installation's CUDA version, which determines the wheel to install.
fn failure_to_load(kind: LoadErrorKind) -> Arc<Failure> {
    let is_missing = matches!(kind, LoadErrorKind::LibraryMissing);
    let mut failure = failure(kind);
    if is_missing && let Some(Failure { installation: Some(found), .. }) = Arc::get_mut(&mut failure) {
        found.cuda_major = cuda_major().or(found.cuda_major).or_else(|| found.cuda_major_from_gpu_code());
    }
    failure
}

/// Adopts the library if the process has already loaded it from this installation. Otherwise checks the file and loads
/// it. The flag in the result is true for a newly loaded library.
fn load_or_adopt(installation: &Installation, library: Library) -> Result<(PathBuf, Handle, bool), LoadErrorKind> {
    // The file is left over from a newer release, even if the process has loaded it.
    if !has_library(installation.version, library) {
        return Err(LoadErrorKind::LibraryMissing);
    }
    if let Some(object) = LoadedObjects::snapshot().find(library.file_name()) {
        if is_in(&object.path, &installation.dir) {
            return Ok((object.path, object.handle, false));
        }
        return Err(LoadErrorKind::Rejected {
            path: installation.path(library),
            error: ProbeError::OtherLoaded {
                loaded: dir_of(&object.path),
                loaded_version: in_memory::version(&object.handle, library),
                version: Some(installation.version),
            },
        });
    }
    let path = installation.path(library);
    // The selection has already checked graph's file. Once loaded, graph also reveals the CUDA major version.
    if library != Library::Graph {
        let mut expected = installation.clone();
        expected.cuda_major =
            cuda_major().or(installation.cuda_major).or_else(|| installation.cuda_major_from_gpu_code());
        expected.check(library).map_err(|error| match error {
            ProbeError::NotFound => LoadErrorKind::LibraryMissing,
            error => {
                let (path, error) = expected.blame(library, error);
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

/// Compares the loaded library with the file and returns the version in memory.
///
/// # Errors
/// Returns the mismatch as the predicate of a sentence about the file.
fn verify_loaded(installation: &Installation, library: Library, handle: &Handle) -> Result<Option<Version>, String> {
    // Another thread may have loaded a different copy at the same time.
    let object = LoadedObjects::snapshot().find(library.file_name());
    if let Some(first) = object.filter(|first| first.handle != *handle) {
        return Err(format!("is a second copy: the process has loaded {} first", shown_path(&first.path)));
    }
    if library.version_symbol().is_none() {
        return Ok(None);
    }
    match in_memory::version(handle, library) {
        None => Err("no longer exports its version symbol".into()),
        Some(found) if found != installation.version => {
            Err(format!("is cuDNN {found}, but the installation is {}", installation.version))
        }
        found => Ok(found),
    }
}
