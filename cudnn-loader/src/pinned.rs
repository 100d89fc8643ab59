//! The one installation that this process uses: found or adopted at the first use, and kept.
//!
//! It knows nothing of functions, and of sub-libraries only whether the process holds one already.

use std::cell::Cell;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cudnn_probe::{
    Candidate, Host, Installation, Library, Origin, ProbeError, RejectedCandidate, Search, Version, identify,
};

use crate::elected::RaceOnce;
use crate::error::{Failure, LoadError, LoadErrorKind};
use crate::linker::{self, Handle, LoadedObject};
use crate::options::Options;
use crate::within::ReentrancyGuard;
use crate::{Function, SubLibrary, log, run_paths};

/// The installation that this process uses, and what was passed over on the way to it.
pub(crate) struct Selected {
    pub(crate) installation: Installation,
    considered: Arc<Vec<RejectedCandidate>>,
}

pub(crate) type Shared<T> = Result<T, Arc<Failure>>;

static SELECTED: RaceOnce<Shared<Selected>> = RaceOnce::new();

/// The installation that this process uses, once its first use has decided on one. Loads nothing.
#[must_use]
pub fn installation() -> Option<&'static Installation> {
    Some(&selected()?.installation)
}

pub(crate) fn selected() -> Option<&'static Selected> {
    SELECTED.get()?.as_ref().ok()
}

/// A failure with all that is known of where it happened.
pub(crate) fn failure(kind: LoadErrorKind) -> Arc<Failure> {
    Arc::new(Failure {
        kind,
        installation: selected().map(|pinned| pinned.installation.clone()),
        rejected: selected().map(|pinned| pinned.considered.clone()).unwrap_or_default(),
    })
}

/// Lets the next use search again: where nothing was found, or where what was found turned out to be of no use.
pub(crate) fn reset_selection(also_what_was_found: bool) {
    if let Some(outcome) = SELECTED.get()
        && (also_what_was_found || outcome.is_err())
    {
        SELECTED.reset(outcome);
    }
}

/// The pinned installation; if there is none yet, finds and pins one that meets the options.
pub(crate) fn select(options: &Options) -> Result<&'static Installation, LoadError> {
    let outcome = SELECTED.get_or_init(|| {
        let outcome = search(options);
        log_selection(&outcome);
        outcome
    });
    match outcome {
        Ok(pinned) => Ok(&pinned.installation),
        Err(failure) => Err(LoadError::new(SubLibrary::Graph, failure.clone())),
    }
}

/// The file of NVIDIA's own shim, where the process has loaded it; not the drop-in library, which has the same name.
#[must_use]
pub fn nvidia_shim() -> Option<PathBuf> {
    linker::list().nvidia_shim(Library::Shim.file_name())
}

/// Is anything loaded that needs a library of the shim's name from the start?
#[doc(hidden)]
#[must_use]
pub fn process_needs_shim() -> bool {
    linker::list().needs(Library::Shim.file_name())
}

fn search(options: &Options) -> Shared<Selected> {
    let mut search = Search::new(Host::current().secure_execution(linker::is_secure_execution()));
    if let Some(path) = &options.path {
        search = search.explicit(path);
    }
    let loaded = linker::list();
    if let Some(held) = loaded.find(Library::Graph.file_name()) {
        log::join(None);
        return adopt(&held, &search, options);
    }
    // The drop-in library, or any other that this code is in, as an application brings it.
    if let Some(folder) = loaded.containing_library().as_deref().and_then(Path::parent) {
        search = search.add_adjacent(folder);
    }
    // NVIDIA's shim, not used yet: it would take the libraries beside it.
    if let Some(folder) = loaded.nvidia_shim(Library::Shim.file_name()).as_deref().and_then(Path::parent) {
        search = search.add_loaded(folder);
    }
    // With raised privileges the dynamic linker does not believe `$ORIGIN` everywhere either.
    if !linker::is_secure_execution() {
        for (folder, of) in run_paths::dirs_with_cudnn(loaded) {
            search = search.add_run_path(folder, of);
        }
    }
    let found = cudnn_probe::select(&search, &options.requirements);
    let considered = Arc::new(found.rejected);
    match found.installation {
        Some(installation) => Ok(Selected { installation, considered }),
        None => Err(no_installation(considered)),
    }
}

/// Takes the cuDNN whose graph library somebody else has loaded into this process, or refuses it: a second one is
/// never loaded. What it is is read from memory, since its files may have been replaced in the meantime.
fn adopt(held: &LoadedObject, search: &Search, options: &Options) -> Shared<Selected> {
    let folder = dir_of(&held.path);
    let refuse = |folder: &Path, origin: Origin, error| {
        let candidate = Candidate { dir: folder.to_owned(), origin };
        Err(no_installation(Arc::new(vec![RejectedCandidate { candidate, error }])))
    };
    if let Some(named) = search.explicit_candidate()
        && !same_dir(&named.dir, &folder)
    {
        let version = version(&held.handle, Library::Graph);
        let own = identify(&named.dir.join(Library::Graph.file_name()), Library::Graph);
        let own = own.ok().and_then(|identity| identity.version);
        return refuse(&named.dir, named.origin, ProbeError::OtherLoaded { loaded: folder, version, own });
    }
    let Some(version) = version(&held.handle, Library::Graph) else {
        let what = "it does not state its version, as every libcudnn_graph.so.9 does".into();
        return refuse(&folder, Origin::Loaded, ProbeError::Malformed { what });
    };
    let installation = Installation::from_loaded(folder.clone(), Origin::Loaded, version, cuda_major(&held.handle));
    match options.requirements.check(&installation) {
        Ok(()) => Ok(Selected { installation, considered: Arc::default() }),
        Err(refusal) => refuse(&folder, Origin::Loaded, refusal),
    }
}

/// Into the log.
fn log_selection(outcome: &Shared<Selected>) {
    match outcome {
        Ok(Selected { installation, considered }) => log::found(Ok(installation), considered),
        Err(failure) => {
            log::found(Err(&LoadError::new(SubLibrary::Graph, failure.clone())), &failure.rejected);
        }
    }
}

fn no_installation(considered: Arc<Vec<RejectedCandidate>>) -> Arc<Failure> {
    Arc::new(Failure { kind: LoadErrorKind::NoInstallation, installation: None, rejected: considered })
}

/// The folder of a loaded file, without links where they can be followed.
pub(crate) fn dir_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(file);
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

pub(crate) fn same_dir(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// The version that a loaded library states; none of those that state none.
pub(crate) fn version(handle: &Handle, library: Library) -> Option<Version> {
    let name = std::ffi::CString::new(library.version_symbol()?).ok()?;
    let address = linker::symbol(handle, &name)?;
    // SAFETY: the symbol is four bytes of read-only data in every cuDNN 9, and the library stays loaded.
    let datum = unsafe { address.cast::<[u8; 4]>().read_unaligned() };
    Some(Version::from_symbol(datum))
}

/// The CUDA major that a loaded graph library was built with. Its file says nothing of it, but once loaded it does. Asked once:
/// cuDNN logs the question, and calls whoever receives its log; who may call this crate, and is not asked again meanwhile.
pub(crate) fn cuda_major(graph: &Handle) -> Option<u32> {
    let mut major = CUDA_MAJOR.load(Ordering::Relaxed);
    if major == 0 {
        let _asking = ReentrancyGuard::enter(&IS_ASKING)?;
        let address = linker::symbol(graph, Function::CudnnGetCudartVersion.symbol())?;
        // SAFETY: the address is that of cuDNN's function of this name.
        let function = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> usize>(address) };
        // SAFETY: it takes nothing, and returns a constant.
        major = u32::try_from(unsafe { function() } / 1000).ok()?;
        CUDA_MAJOR.store(major, Ordering::Relaxed);
    }
    (major != 0).then_some(major)
}

/// What a graph library has said; 0 before.
static CUDA_MAJOR: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Asks the cuDNN that the process holds, before this crate has taken or loaded any, what has to be asked of it. Whoever loaded
/// it may have set a callback that throws; such an exception cannot be caught, so this is done where it passes.
pub(crate) fn query_loaded_cuda_major() {
    if CUDA_MAJOR.load(Ordering::Relaxed) == 0
        && let Some(held) = linker::list().find(Library::Graph.file_name())
    {
        cuda_major(&held.handle);
    }
}
