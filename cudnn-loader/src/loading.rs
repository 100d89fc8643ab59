//! From a function to its address: pin an installation, check and open sub-libraries, confirm what was opened.
//!
//! Everything here is made once and shared by [`Elected`], so no lock is ever held while the dynamic linker works.

use std::ffi::c_void;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudnn_probe::{Considered, Environment, Found, Installation, Library, Refusal, Search, Version, find};

use crate::elected::Elected;
use crate::error::{Failure, LinkerFault, LoadError, LoadErrorKind};
use crate::linker::{self, Handle};
use crate::options::Options;
use crate::{Function, SubLibrary, last_error};

/// A sub-library that was loaded.
#[derive(Debug)]
pub struct Opened {
    /// Which one.
    pub library: SubLibrary,
    /// The file, as the dynamic linker names it.
    pub path: PathBuf,
    /// Its version, confirmed in memory; the sub-libraries that state none (cnn and ext) say `None`.
    pub version: Option<Version>,
    /// How long reading, loading and confirming it took, those that it needs not counted.
    pub took: Duration,
    handle: Handle,
}

/// The installation that this process uses.
struct Pinned {
    installation: Installation,
    considered: Vec<Considered>,
}

type Outcome<T> = Result<T, Arc<Failure>>;

static PINNED: Elected<Outcome<Pinned>> = Elected::new();
static OPENED: [Elected<Outcome<Opened>>; 5] = [const { Elected::new() }; 5];

/// The installation that this process uses, once its first use has decided on one. Loads nothing.
#[must_use]
pub fn installation() -> Option<&'static Installation> {
    Some(&pinned()?.installation)
}

pub(crate) fn opened(library: SubLibrary) -> Option<&'static Opened> {
    place(library)?.get()?.as_ref().ok()
}

fn place(library: SubLibrary) -> Option<&'static Elected<Outcome<Opened>>> {
    OPENED.get(library as usize)
}

/// Lets the next use of a sub-library try again what has failed.
pub(crate) fn forget_failure(library: SubLibrary) {
    if let Some(failed) = PINNED.get()
        && failed.is_err()
    {
        PINNED.forget(failed);
    }
    for library in with_needs(library) {
        if let Some(place) = place(library)
            && let Some(failed) = place.get()
            && failed.is_err()
        {
            place.forget(failed);
        }
    }
}

/// The address that calls of a function go to.
pub(crate) fn address(function: Function) -> Result<*mut (), LoadError> {
    // The two string functions are ours, so that they work with nothing installed.
    if let Some(ours) = last_error::own(function) {
        return Ok(ours);
    }
    let opened = open(function.library()).map_err(|error| match error.kind() {
        // A library that came with a later release: the function is what is too new, and it says since when.
        LoadErrorKind::NotInstalled => too_new(function).unwrap_or(error),
        _ => error,
    });
    let opened = opened.map_err(|error| error.of_function(function))?;
    match linker::symbol(&opened.handle, function.symbol()) {
        Some(address) => Ok(address.cast()),
        None => Err(too_new(function)
            .unwrap_or_else(|| {
                let kind = LoadErrorKind::Missing { path: opened.path.clone() };
                LoadError::new(function.library(), pinned_failure(kind, pinned()))
            })
            .of_function(function)),
    }
}

/// The error that a function gives which is newer than the installation, if it is.
fn too_new(function: Function) -> Option<LoadError> {
    let pinned = pinned()?;
    let installed = pinned.installation.version;
    (installed < function.since())
        .then(|| LoadError::new(function.library(), pinned_failure(LoadErrorKind::TooNew { installed }, Some(pinned))))
}

fn pinned() -> Option<&'static Pinned> {
    PINNED.get()?.as_ref().ok()
}

fn pinned_failure(kind: LoadErrorKind, pinned: Option<&'static Pinned>) -> Arc<Failure> {
    Arc::new(Failure {
        kind,
        installation: pinned.map(|pinned| pinned.installation.clone()),
        considered: pinned.map_or(&[], |pinned| &pinned.considered),
    })
}

/// Finds and pins an installation that meets the options, or holds the pinned one against them.
pub(crate) fn pin(options: &Options) -> Result<&'static Installation, LoadError> {
    let outcome = PINNED.get_or_make(|| search(options));
    let failed = |failure: &Arc<Failure>| LoadError::new(SubLibrary::Graph, failure.clone());
    let pinned = outcome.as_ref().map_err(failed)?;
    options
        .accepts(&pinned.installation)
        .map_err(|refusal| failed(&pinned_failure(LoadErrorKind::AlreadyPinned { refusal }, Some(pinned))))?;
    Ok(&pinned.installation)
}

fn search(options: &Options) -> Outcome<Pinned> {
    let in_process = folder_in_process();
    let mut search = Search::new(Environment::current().privileged(linker::is_privileged()));
    if let Some(folder) = &in_process {
        search = search.loaded(folder);
    }
    if let Some(path) = &options.path {
        search = search.explicit(path);
    }
    let Found { installation, mut considered } = find(&search, &options.requirements);
    if let (Some(found), Some(loaded)) = (&installation, &in_process)
        && !same_folder(&found.folder, loaded)
    {
        considered.push(Considered {
            candidate: cudnn_probe::Candidate { folder: found.folder.clone(), origin: found.origin.clone() },
            refusal: Refusal::ProcessHasAnother { loaded: loaded.clone() },
        });
        return Err(no_installation(considered));
    }
    match installation {
        Some(installation) => Ok(Pinned { installation, considered }),
        None => Err(no_installation(considered)),
    }
}

fn no_installation(considered: Vec<Considered>) -> Arc<Failure> {
    // Kept for good, as the values of `Elected` are: one search's worth.
    let considered = Vec::leak(considered);
    Arc::new(Failure { kind: LoadErrorKind::NoInstallation, installation: None, considered })
}

fn same_folder(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// The folder of a cuDNN that somebody else has loaded into this process: of its graph library, or, where NVIDIA's
/// shim has not been used yet, of the shim.
fn folder_in_process() -> Option<PathBuf> {
    let files = linker::loaded();
    [Library::Graph, Library::Shim].into_iter().find_map(|library| {
        let file = files.iter().find(|file| is_a(file, library))?;
        Some(file.parent()?.to_owned())
    })
}

/// Is it this library by its file's name, which may have the full version: `libcudnn_graph.so.9.19.0`?
fn is_a(file: &Path, library: Library) -> bool {
    let rest = file.file_name().and_then(|name| name.as_bytes().strip_prefix(library.file_name().as_bytes()));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// The sub-library and those that it needs, in the order in which to open them.
fn with_needs(library: SubLibrary) -> impl Iterator<Item = SubLibrary> {
    SubLibrary::ALL
        .into_iter()
        .filter(move |other| library.library().needs().contains(&other.library()))
        .chain([library])
}

/// Opens a sub-library after those that it needs.
pub(crate) fn open(library: SubLibrary) -> Result<&'static Opened, LoadError> {
    let installation = pin(&Options::default()).map_err(|error| error.of_library(library))?;
    let mut last = None;
    for library in with_needs(library) {
        let Some(place) = place(library) else { continue };
        let outcome = place.get_or_make(|| open_one(installation, library));
        last = Some(outcome.as_ref().map_err(|failure| LoadError::new(library, failure.clone()))?);
    }
    last.ok_or_else(|| LoadError::new(library, pinned_failure(LoadErrorKind::NotInstalled, pinned())))
}

fn open_one(installation: &'static Installation, library: SubLibrary) -> Outcome<Opened> {
    let start = Instant::now();
    let fail = |kind| pinned_failure(kind, pinned());
    let path = installation.path(library.library());
    // Graph was read when the installation was pinned, and tells more of itself once it is loaded.
    if library != SubLibrary::Graph {
        let expected = Installation { cuda_major: cuda_major(installation), ..installation.clone() };
        expected.check(library.library()).map_err(|refusal| match refusal {
            Refusal::Absent => fail(LoadErrorKind::NotInstalled),
            refusal => fail(LoadErrorKind::Refused { path: path.clone(), refusal }),
        })?;
    }
    let handle = linker::open(&path).map_err(|message| {
        fail(LoadErrorKind::Linker { path: path.clone(), fault: LinkerFault::of(&message), message })
    })?;
    let version = confirm(installation, library, &handle)
        .map_err(|what| fail(LoadErrorKind::NotConfirmed { path: path.clone(), what }))?;
    if library == SubLibrary::Graph {
        check_engines(installation, &handle).map_err(fail)?;
        open_shadowed(installation);
    }
    Ok(Opened { library, path, version, took: start.elapsed(), handle })
}

/// The CUDA major that libraries are held against: what the loaded graph library says, else what files say.
fn cuda_major(installation: &Installation) -> Option<u32> {
    opened(SubLibrary::Graph)
        .and_then(|graph| cuda_major_of(&graph.handle))
        .or(installation.cuda_major)
        .or_else(|| installation.cuda_major_of_code())
}

/// The CUDA major that a loaded graph library was built with. Its file says nothing of it, but once loaded it does.
fn cuda_major_of(graph: &Handle) -> Option<u32> {
    let address = linker::symbol(graph, Function::CudnnGetCudartVersion.symbol())?;
    // SAFETY: the address is that of cuDNN's function of this name.
    let function = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> usize>(address) };
    // SAFETY: it takes nothing, and returns a constant.
    let version = unsafe { function() };
    u32::try_from(version / 1000).ok().filter(|major| *major != 0)
}

/// The engines that graph opens by itself are held against it before it can: nothing in cuDNN notices those of another
/// CUDA major. What is damaged or absent is left to cuDNN, which may never want it.
fn check_engines(installation: &Installation, graph: &Handle) -> Result<(), LoadErrorKind> {
    let expected = Installation { cuda_major: cuda_major_of(graph), ..installation.clone() };
    for library in Library::OPENED_BY_GRAPH {
        if let Err(refusal @ Refusal::MixedCuda { .. }) = expected.check(library) {
            return Err(LoadErrorKind::Refused { path: installation.path(library), refusal });
        }
    }
    Ok(())
}

/// Holds what was loaded against what its file had said. Gives the version in memory.
fn confirm(installation: &Installation, library: SubLibrary, handle: &Handle) -> Result<Option<Version>, String> {
    let Some(name) = library.library().version_symbol() else { return Ok(None) };
    let Ok(name) = std::ffi::CString::new(name) else { return Ok(None) };
    let Some(address) = linker::symbol(handle, &name) else {
        return Err("no longer states its version".into());
    };
    // SAFETY: the symbol is four bytes of read-only data in every cuDNN 9 (the file was checked to have it), and the
    // library stays loaded.
    let [patch, minor, major, _] = unsafe { address.cast::<[u8; 4]>().read_unaligned() }.map(u32::from);
    let found = Version::new(major, minor, patch);
    if found != installation.version {
        return Err(format!("is cuDNN {found}, and not {} as the installation", installation.version));
    }
    match linker::file_of(address) {
        Some(file) if !file.parent().is_some_and(|folder| same_folder(folder, &installation.folder)) => {
            Err(format!("came from {file:?}"))
        }
        _ => Ok(Some(found)),
    }
}

/// `libcudnn_graph.so.9` opens its engines by bare name. Where LD_LIBRARY_PATH would lead the linker to another file
/// of that name, ours is opened first: the linker then finds it loaded. Elsewhere nothing is opened ahead of cuDNN,
/// since these libraries are big.
fn open_shadowed(installation: &Installation) {
    let Some(path) = std::env::var_os("LD_LIBRARY_PATH") else { return };
    for library in Library::OPENED_BY_GRAPH {
        let shadowed = std::env::split_paths(&path)
            .map(|folder| folder.join(library.file_name()))
            .find(|file| file.exists())
            .is_some_and(|file| !file.parent().is_some_and(|folder| same_folder(folder, &installation.folder)));
        if shadowed && installation.check(library).is_ok() {
            // What cannot be opened here cuDNN would not get either: it is cuDNN that says so, when it needs it.
            let _ = linker::open(&installation.path(library));
        }
    }
}

/// cuDNN's own function behind one of the names that this crate serves itself, if its library is loaded.
pub(crate) fn loaded_address(function: Function) -> Option<*mut c_void> {
    linker::symbol(&opened(function.library())?.handle, function.symbol())
}
