//! Loads the libraries of the selected installation. A library is checked on disk, loaded after all dependencies,
//! verified in memory, and cached.
//!
//! [`Attempts`] shares the results between threads, which wait for each other only for a limited time while ld.so runs.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudnn_os::functions::pointer_as;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Installation, Library, ProbeError, Version, shown_path};

use super::attempts::{Attempts, Shared, When};
use super::installation::{
    dir_of, failure, forget_failed_search, forget_search, is_in, keep, last_search, select, selected,
};
use super::{in_memory, plugins};
use crate::dl::dlerror::{DlErrorKind, DlopenError};
use crate::dl::objects::LoadedObjects;
use crate::dl::{self, Handle};
use crate::error::{Failure, LoadError, LoadErrorKind};
use crate::events::{LoaderEvent, emit};
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
    pub(super) installation: &'static Installation,
    handle: Handle,
    /// Set only for graph.
    graph_functions: Option<GraphFunctions>,
}

impl LoadedLibrary {
    /// Returns the address of a function or data symbol that the library itself exports. The symbol may be missing from
    /// these bindings, for example because a newer cuDNN added it or because no header declares it.
    ///
    /// # Errors
    /// Fails if the library does not export the name.
    pub fn symbol(&self, name: &CStr) -> Result<*const c_void, LoadError> {
        self.own_symbol(name).map(<*mut c_void>::cast_const).map_err(|missing| {
            let (name, path) = (name.to_string_lossy().into_owned(), self.path.clone());
            let kind = match missing {
                Missing::Absent => LoadErrorKind::PrivateSymbolMissing { name, path },
                Missing::Elsewhere(owner) => LoadErrorKind::SymbolElsewhere { path, owner },
            };
            LoadError::new(self.library, failure(kind))
        })
    }

    pub(super) fn own_symbol(&self, name: &CStr) -> Result<*mut c_void, Missing> {
        let address = self.handle.symbol(name).ok_or(Missing::Absent)?;
        self.handle.other_owner(address).map_or(Ok(address), |owner| Err(Missing::Elsewhere(owner)))
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

/// Compares identities, because a process loads a library once.
impl PartialEq for LoadedLibrary {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

/// The reason why a library does not provide a symbol.
pub(super) enum Missing {
    /// The library does not export it.
    Absent,
    /// The address belongs to the library with this file.
    Elsewhere(PathBuf),
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

/// Selects an installation that meets the options and loads the graph library. Retries after earlier failures.
pub(crate) fn load_installation(options: &Options) -> Result<&'static Installation, LoadError> {
    clear_failure(Library::Graph);
    let mut objects = LoadedObjects::snapshot();
    let installation = &select(Some(options), &objects)?.installation;
    // Check the active installation, because it may have been selected with different options. Once graph is loaded,
    // the CUDA major version is known.
    let mut active = installation.clone();
    active.cuda_major = cuda_major().or(installation.cuda_major);
    options
        .check(&active)
        .map_err(|error| LoadError::new(Library::Graph, failure(LoadErrorKind::AlreadySelected { error })))?;
    load(Library::Graph, &mut objects)?;
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

/// Loads a library, dependencies first.
pub(crate) fn load(library: Library, objects: &mut LoadedObjects) -> Result<&'static LoadedLibrary, LoadError> {
    if let Some(loaded) = loaded(library) {
        return Ok(loaded);
    }
    forget_failures(library, When::Due);
    let selection = select(None, objects).map_err(|error| error.with_library(library))?;
    let mut last = None;
    for library in load_order(library) {
        let Some(attempts) = attempts(library) else { continue };
        let outcome = attempts.get_or_try(|| {
            // Another thread may have changed the selection, until graph is loaded.
            let selection = selected().unwrap_or(selection);
            let outcome = attempt(&selection.installation, library, objects);
            match &outcome {
                Ok(LoadedLibrary { path, duration, .. }) => {
                    if library == Library::Graph {
                        keep(selection);
                    }
                    emit(&LoaderEvent::Loaded { library, path, duration: *duration });
                }
                Err(failure) => emit(&LoaderEvent::LoadFailed { error: &LoadError::new(library, failure.clone()) }),
            }
            outcome
        });
        last = Some(outcome.as_ref().map_err(|failure| LoadError::new(library, failure.clone()))?);
    }
    last.ok_or_else(|| LoadError::new(library, failure(LoadErrorKind::LibraryMissing)))
}

fn attempt(
    installation: &'static Installation,
    library: Library,
    objects: &mut LoadedObjects,
) -> Shared<LoadedLibrary> {
    let start = Instant::now();
    let (path, handle, is_new) = load_or_adopt(installation, library, objects).map_err(failure_to_load)?;
    let version = verify_loaded(installation, library, &handle, objects)
        .map_err(|mismatch| failure(LoadErrorKind::VerificationFailed { path: path.clone(), mismatch }))?;
    let mut graph_functions = None;
    if library == Library::Graph {
        // Before the callback is set, because cuDNN logs this call.
        in_memory::cuda_major(&handle);
        let function = |function: Function| handle.symbol(function.symbol());
        graph_functions = function(Function::CudnnGetErrorString)
            .zip(function(Function::CudnnGetLastErrorString))
            .zip(function(Function::CudnnSetCallback))
            .map(|((get_error_string, get_last_error_string), set_callback)| GraphFunctions {
                get_error_string,
                get_last_error_string,
                set_callback,
            });
        // For an adopted library, the callback is installed outside `catch_unwind` (see `guard`), because the program's
        // own callback may throw.
        if let Some(GraphFunctions { set_callback, .. }) = graph_functions.filter(|_| is_new) {
            emit(&LoaderEvent::GraphOpened { set_callback });
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
        graph_functions,
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
fn load_or_adopt(
    installation: &Installation,
    library: Library,
    objects: &mut LoadedObjects,
) -> Result<(PathBuf, Handle, bool), LoadErrorKind> {
    // The file is left over from a newer release, even if the process has loaded it.
    if !has_library(installation.version, library) {
        return Err(LoadErrorKind::LibraryMissing);
    }
    // Once loaded, graph reveals the CUDA major version.
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major().or(installation.cuda_major);
    // The process may have loaded libraries since the list was read, while this thread waited for another one.
    objects.refresh();
    if let Some(adopted) = adopt(&expected, library, objects)? {
        return Ok(adopted);
    }
    // The selection has already checked graph's file.
    if library != Library::Graph {
        expected.cuda_major = expected.cuda_major.or_else(|| installation.cuda_major_from_gpu_code());
    }
    let opened = open(&expected, library, objects).map(|(path, handle)| (path, handle, true));
    match opened {
        Err(LoadErrorKind::LibraryMissing | LoadErrorKind::Dlopen { .. }) if plugins::is_plugin(library) => {
            // A hook of `dlopen` may have loaded another file, which graph would then use.
            match adopt(&expected, library, objects)? {
                Some(adopted) => Ok(adopted),
                None => plugins::check_alternative(&expected, library).and(opened),
            }
        }
        opened => opened,
    }
}

/// Returns the library if the process has already loaded it.
///
/// # Errors
/// Returns an error if it belongs to a different installation.
fn adopt(
    expected: &Installation,
    library: Library,
    objects: &LoadedObjects,
) -> Result<Option<(PathBuf, Handle, bool)>, LoadErrorKind> {
    let Some(object) = objects.find(library.file_name()) else { return Ok(None) };
    if !is_in(&object.path, &expected.dir) {
        if !plugins::is_plugin(library) {
            return Err(LoadErrorKind::Rejected {
                path: expected.path(library),
                error: ProbeError::OtherLoaded {
                    loaded: dir_of(&object.path),
                    loaded_version: in_memory::version(&object.handle, library),
                    version: Some(expected.version),
                },
            });
        }
        plugins::check_loaded(expected, library, &object.path)?;
    }
    Ok(Some((object.path, object.handle, false)))
}

/// Checks the file and opens it.
fn open(
    expected: &Installation,
    library: Library,
    objects: &mut LoadedObjects,
) -> Result<(PathBuf, Handle), LoadErrorKind> {
    let path = expected.path(library);
    if library != Library::Graph {
        expected.check(library).map_err(|error| match error {
            ProbeError::NotFound => LoadErrorKind::LibraryMissing,
            error => {
                let (path, error) = expected.blame(library, error);
                LoadErrorKind::Rejected { path, error }
            }
        })?;
    }
    if let Some(message) = plugins::reason_to_skip(library) {
        return Err(LoadErrorKind::Dlopen { path, cause: DlErrorKind::Other, message });
    }
    emit(&LoaderEvent::Loading { library, path: &path });
    match dl::open_and_list(&path, objects) {
        Ok(handle) => Ok((path, handle)),
        Err(DlopenError { cause, message }) => Err(LoadErrorKind::Dlopen { path, cause, message }),
    }
}

/// Compares the loaded library with the file and returns the version in memory.
///
/// # Errors
/// Returns the mismatch as the predicate of a sentence about the file.
fn verify_loaded(
    installation: &Installation,
    library: Library,
    handle: &Handle,
    objects: &LoadedObjects,
) -> Result<Option<Version>, String> {
    // Another thread may have loaded a different copy at the same time.
    if let Some(first) = objects.first(library.file_name()).filter(|first| first.handle != *handle) {
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
