//! From a function to its address: check and open the sub-libraries that it needs, confirm what was opened, look it up.
//!
//! Everything here is made once and shared by [`Elected`], so no lock is ever held while the dynamic linker works.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cudnn_probe::{Installation, ProbeError, Version};

use crate::elected::RaceOnce;
use crate::error::{LoadError, LoadErrorKind};
use crate::linker::{self, Handle};
use crate::linker_fault::DlErrorKind;
use crate::options::Options;
use crate::pinned::{self, Shared, dir_of, failure, select, selected};
use crate::{Function, SubLibrary, engines, log};

/// A sub-library that was loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedLibrary {
    /// Which one.
    pub library: SubLibrary,
    /// The file, as the dynamic linker names it.
    pub path: PathBuf,
    /// Its version, confirmed in memory; the sub-libraries that state none (cnn and ext) say `None`.
    pub version: Option<Version>,
    /// How long reading, loading and confirming it took, those that it needs not counted.
    pub duration: Duration,
    handle: Handle,
    /// Of graph: its own functions behind the names that this crate serves itself.
    strings: Option<ErrorStringFns>,
}

/// The addresses of cuDNN's own `cudnnGetErrorString` and `cudnnGetLastErrorString`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorStringFns {
    pub(crate) error: *mut c_void,
    pub(crate) last_error: *mut c_void,
}

// SAFETY: they are addresses of functions, which any thread may call.
unsafe impl Send for ErrorStringFns {}
// SAFETY: as above.
unsafe impl Sync for ErrorStringFns {}

static LIBRARIES: [RaceOnce<Shared<LoadedLibrary>>; 5] = [const { RaceOnce::new() }; 5];

fn cell(library: SubLibrary) -> Option<&'static RaceOnce<Shared<LoadedLibrary>>> {
    LIBRARIES.get(library as usize)
}

pub(crate) fn loaded(library: SubLibrary) -> Option<&'static LoadedLibrary> {
    cell(library)?.get()?.as_ref().ok()
}

/// cuDNN's own string functions, once its graph library is loaded. Asks nothing of the dynamic linker, which another
/// thread may keep busy.
pub(crate) fn error_string_fns() -> Option<ErrorStringFns> {
    loaded(SubLibrary::Graph)?.strings
}

/// The CUDA major of the loaded graph library.
pub(crate) fn cuda_major() -> Option<u32> {
    pinned::cuda_major(&loaded(SubLibrary::Graph)?.handle)
}

/// Lets the next use of a sub-library try again what has failed.
pub(crate) fn clear_failure(library: SubLibrary) {
    for library in load_order(library) {
        if let Some(place) = cell(library)
            && let Some(failed) = place.get()
            && failed.is_err()
        {
            place.reset(failed);
            // Without graph nothing of the installation is in use: the next search may come upon another.
            pinned::reset_selection(library == SubLibrary::Graph);
        }
    }
    pinned::reset_selection(false);
}

/// The address of cuDNN's function.
pub(crate) fn address(function: Function) -> Result<*mut (), LoadError> {
    let opened = load_sub_library(function.library()).map_err(|error| match error.kind() {
        // A library that came with a later release: the function is what is too new, and it says since when.
        LoadErrorKind::LibraryMissing => too_new(function).unwrap_or(error),
        _ => error,
    });
    let opened = opened.map_err(|error| error.of_function(function))?;
    linker::symbol(&opened.handle, function.symbol()).map(|address| address.cast()).ok_or_else(|| {
        let missing = || LoadErrorKind::SymbolMissing { path: opened.path.clone() };
        too_new(function)
            .unwrap_or_else(|| LoadError::new(function.library(), failure(missing())))
            .of_function(function)
    })
}

/// The address of anything in a sub-library.
pub(crate) fn symbol(library: SubLibrary, name: &CStr) -> Result<*const c_void, LoadError> {
    let opened = load_sub_library(library)?;
    linker::symbol(&opened.handle, name).map(<*mut c_void>::cast_const).ok_or_else(|| {
        let name = name.to_string_lossy().into_owned();
        LoadError::new(library, failure(LoadErrorKind::PrivateSymbolMissing { name, path: opened.path.clone() }))
    })
}

/// The error that a function gives which is newer than the installation, if it is.
fn too_new(function: Function) -> Option<LoadError> {
    let installed = selected()?.installation.version;
    let kind = LoadErrorKind::FunctionTooNew { installed };
    (installed < function.since()).then(|| LoadError::new(function.library(), failure(kind)))
}

impl Options {
    /// Finds an installation that meets the options, and loads `libcudnn_graph.so.9` from it. Tries again when an
    /// earlier attempt failed.
    ///
    /// # Errors
    /// Why there is none, or why the one in use does not meet the options.
    pub fn load(&self) -> Result<&'static Installation, LoadError> {
        let loaded = self.find_and_load();
        log::flush();
        loaded
    }

    fn find_and_load(&self) -> Result<&'static Installation, LoadError> {
        clear_failure(SubLibrary::Graph);
        let installation = select(self)?;
        // What is in use was perhaps chosen for somebody else's wishes. Loaded, it tells its CUDA major.
        let mut known = installation.clone();
        known.cuda_major = cuda_major().or(installation.cuda_major);
        self.accept(&known).map_err(|refusal| {
            LoadError::new(SubLibrary::Graph, failure(LoadErrorKind::AlreadySelected { refusal }))
        })?;
        load_sub_library(SubLibrary::Graph)?;
        Ok(installation)
    }
}

/// Loads cuDNN now, whichever the search finds first: [`Options::load`] with no wishes.
///
/// # Errors
/// Why there is none.
pub fn load() -> Result<&'static Installation, LoadError> {
    Options::new().load()
}

/// The sub-library and those that it needs, in the order in which to open them.
fn load_order(library: SubLibrary) -> impl Iterator<Item = SubLibrary> {
    let needs = move |other: &SubLibrary| library.library().dependencies().contains(&other.library());
    SubLibrary::ALL.iter().copied().filter(needs).chain([library])
}

/// Opens a sub-library after those that it needs.
pub(crate) fn load_sub_library(library: SubLibrary) -> Result<&'static LoadedLibrary, LoadError> {
    let installation = select(&Options::default()).map_err(|error| error.of_library(library))?;
    let mut last = None;
    for library in load_order(library) {
        let Some(place) = cell(library) else { continue };
        let outcome = place.get_or_init(|| {
            let outcome = load_library(installation, library);
            match &outcome {
                Ok(opened) => log::loaded(library, &opened.path, opened.duration),
                Err(failure) => log::not_loaded(&LoadError::new(library, failure.clone())),
            }
            outcome
        });
        last = Some(outcome.as_ref().map_err(|failure| LoadError::new(library, failure.clone()))?);
    }
    last.ok_or_else(|| LoadError::new(library, failure(LoadErrorKind::LibraryMissing)))
}

fn load_library(installation: &'static Installation, library: SubLibrary) -> Shared<LoadedLibrary> {
    let start = Instant::now();
    let (path, handle) = load_or_adopt(installation, library).map_err(failure)?;
    let version = verify_loaded(installation, library, &handle)
        .map_err(|what| failure(LoadErrorKind::VerificationFailed { path: path.clone(), what }))?;
    let mut strings = None;
    if library == SubLibrary::Graph {
        engines::ensure_own_plugins(installation, pinned::cuda_major(&handle)).map_err(failure)?;
        strings = Option::zip(
            linker::symbol(&handle, Function::CudnnGetErrorString.symbol()),
            linker::symbol(&handle, Function::CudnnGetLastErrorString.symbol()),
        )
        .map(|(error, last_error)| ErrorStringFns { error, last_error });
        if let Some(address) = linker::symbol(&handle, Function::CudnnSetCallback.symbol()) {
            log::in_use(address.cast());
        }
    }
    Ok(LoadedLibrary { library, path, version, duration: start.elapsed(), handle, strings })
}

/// Takes the library that the process holds, when that is the installation's own, or else loads it from its file, once
/// that has been read and found good.
fn load_or_adopt(installation: &Installation, library: SubLibrary) -> Result<(PathBuf, Handle), LoadErrorKind> {
    let is_graph = library == SubLibrary::Graph;
    if let Some(held) = linker::list().find(library.file_name()) {
        if is_graph {
            log::join(None);
        }
        let loaded = dir_of(&held.path);
        return match loaded == installation.dir {
            true => Ok((held.path, held.handle)),
            false => Err(LoadErrorKind::Rejected {
                path: installation.path(library.library()),
                error: ProbeError::OtherLoaded {
                    loaded,
                    version: pinned::version(&held.handle, library.library()),
                    own: Some(installation.version),
                },
            }),
        };
    }
    let path = installation.path(library.library());
    // Graph was read when the installation was pinned, and tells more of itself once it is loaded.
    if library != SubLibrary::Graph {
        let mut expected = installation.clone();
        expected.cuda_major =
            cuda_major().or(installation.cuda_major).or_else(|| installation.cuda_major_from_gpu_code());
        expected.check(library.library()).map_err(|refusal| match refusal {
            ProbeError::NotFound => LoadErrorKind::LibraryMissing,
            refusal => LoadErrorKind::Rejected { path: path.clone(), error: refusal },
        })?;
    }
    log::loading(library, &path);
    let before = is_graph.then(log::before_cudnn).flatten();
    match linker::open(&path) {
        Ok(handle) => {
            if is_graph {
                log::join(before.as_ref());
            }
            Ok((path, handle))
        }
        Err(message) => Err(LoadErrorKind::Dlopen { cause: DlErrorKind::parse(&message, &path), path, message }),
    }
}

/// Holds what was loaded against what its file had said. Gives the version in memory.
fn verify_loaded(installation: &Installation, library: SubLibrary, handle: &Handle) -> Result<Option<Version>, String> {
    // Somebody else may have loaded another one at the same time.
    if let Some(first) = linker::list().find(library.file_name()).filter(|first| first.handle != *handle) {
        return Err(format!("came second: the process holds {:?} too", first.path));
    }
    if library.library().version_symbol().is_none() {
        return Ok(None);
    }
    match pinned::version(handle, library.library()) {
        None => Err("no longer states its version".into()),
        Some(found) if found != installation.version => {
            Err(format!("is cuDNN {found}, and not {} as the installation", installation.version))
        }
        found => Ok(found),
    }
}
