//! The one installation that this process uses: selected at the first use, and kept. This module knows nothing of
//! functions; of sub-libraries it knows only whether the process has loaded one already.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudnn_probe::{
    Candidate, Installation, Library, Origin, ProbeError, RejectedCandidate, Search, canonicalize, identify,
    installation_dir,
};

use super::attempts::{Attempt, Attempts, Shared, When};
use super::in_memory;
use crate::dl;
use crate::dl::objects::{LoadedObject, LoadedObjects};
use crate::dl::run_paths::{self, RunPathDirs};
use crate::error::{Failure, LoadError, LoadErrorKind};
use crate::events::{Event, emit};
use crate::names::HAS_CUDNN;
use crate::options::Options;
use crate::sub_library::SubLibrary;
use crate::sync::once::RaceOnce;

/// The selected installation, and the directories that were rejected before it.
pub(crate) struct Selected {
    pub(crate) installation: Installation,
    rejected: Arc<Vec<RejectedCandidate>>,
}

static SELECTED: Attempts<Selected> = Attempts::new(true);
/// The options of the last search that the program asked for. One that a call makes requires no less.
static REQUIRED: RaceOnce<Options> = RaceOnce::new();

/// The installation that this process uses; `None` before the first use has selected one. Loads nothing.
#[must_use]
pub fn installation() -> Option<&'static Installation> {
    Some(&selected()?.installation)
}

pub(crate) fn selected() -> Option<&'static Selected> {
    SELECTED.success()
}

/// A failure, with what is known about the library and the installation.
pub(crate) fn failure(kind: LoadErrorKind) -> Arc<Failure> {
    Arc::new(Failure {
        kind,
        installation: selected().map(|selected| selected.installation.clone()),
        rejected: selected().map(|selected| selected.rejected.clone()).unwrap_or_default(),
    })
}

/// The last search.
pub(crate) fn last_search() -> Option<&'static Attempt<Selected>> {
    SELECTED.last()
}

/// Lets the next use search again, if this is still the last search.
pub(crate) fn forget_search(search: &'static Attempt<Selected>) {
    SELECTED.forget(search);
}

/// Lets the next use search again, if the last search found nothing.
pub(crate) fn forget_failed_search(when: When) {
    if let Some(failed) = SELECTED.failed(when) {
        SELECTED.forget(failed);
    }
}

/// The selected installation. If there is none yet, selects one that meets the options, or, for a call, those that the
/// program gave before.
pub(crate) fn select(options: Option<&Options>) -> Result<&'static Installation, LoadError> {
    let outcome = SELECTED.get_or_try(|| {
        if let Some(options) = options {
            // The environment of that time is not a requirement.
            REQUIRED.replace(Options { host: None, ..options.clone() });
        }
        let outcome = search(options.or(REQUIRED.get()).unwrap_or(&Options::default()));
        report(&outcome);
        outcome
    });
    match outcome {
        Ok(selected) => Ok(&selected.installation),
        Err(failure) => Err(LoadError::new(SubLibrary::Graph, failure.clone())),
    }
}

/// The file of NVIDIA's shim, if the process has loaded it. The drop-in, which has the same name, does not count.
#[must_use]
pub fn nvidia_shim() -> Option<PathBuf> {
    LoadedObjects::snapshot().nvidia_shim(Library::Shim.file_name())
}

/// Whether a loaded object lists the shim as a dependency.
#[must_use]
pub fn process_needs_shim() -> bool {
    LoadedObjects::snapshot().any_needs(Library::Shim.file_name())
}

fn search(options: &Options) -> Shared<Selected> {
    if !HAS_CUDNN {
        return Err(no_installation(Arc::default()));
    }
    let host = options.host.clone().unwrap_or_else(dl::host);
    let mut search = Search::new(host.clone());
    if let Some(path) = &options.path {
        search = search.explicit(path);
    }
    let objects = LoadedObjects::snapshot();
    if let Some(graph) = objects.find(Library::Graph.file_name()) {
        return adopt(&graph, &search, options);
    }
    // The drop-in, or any other library that contains this code, as an application may bundle it.
    if let Some(dir) = objects.containing_library().as_deref().and_then(Path::parent) {
        search = search.add_adjacent(dir);
    }
    // NVIDIA's shim, loaded but not yet used, would take the libraries beside it.
    if let Some(dir) = objects.nvidia_shim(Library::Shim.file_name()).as_deref().and_then(Path::parent) {
        search = search.add_loaded(dir);
    }
    // As ld.so reads them: in secure-execution mode it does not trust every `$ORIGIN`.
    let RunPathDirs { of_dependents, of_others } = run_paths::dirs_with_cudnn(&host, objects);
    search = search.run_paths(of_dependents, of_others);
    let selection = cudnn_probe::select(&search, &options.requirements);
    let rejected = Arc::new(selection.rejected);
    match selection.installation {
        Some(installation) => Ok(Selected { installation, rejected }),
        None => Err(no_installation(rejected)),
    }
}

/// Selects the cuDNN whose graph library the process has loaded already, or rejects it: a second cuDNN is never loaded.
/// Its version comes from memory, since its files may have been replaced meanwhile.
fn adopt(graph: &LoadedObject, search: &Search, options: &Options) -> Shared<Selected> {
    let dir = installation_dir(&graph.path).unwrap_or_else(|_| dir_of(&graph.path));
    let reject = |dir: &Path, origin: Origin, error| {
        let candidate = Candidate::new(dir, origin);
        Err(no_installation(Arc::new(vec![RejectedCandidate::new(candidate, error)])))
    };
    if let Some(requested) = search.explicit_candidate()
        && installation_dir(&requested.dir.join(Library::Graph.file_name())).ok().as_ref() != Some(&dir)
    {
        let version = in_memory::version(&graph.handle, Library::Graph);
        let own = identify(&requested.dir.join(Library::Graph.file_name()), Library::Graph);
        let own = own.ok().and_then(|identity| identity.version);
        return reject(
            &requested.dir,
            requested.origin,
            ProbeError::OtherLoaded { loaded: dir, loaded_version: version, version: own },
        );
    }
    let Some(version) = in_memory::version(&graph.handle, Library::Graph) else {
        let what = "it does not state its version, as every libcudnn_graph.so.9 does".into();
        return reject(&dir, Origin::Loaded, ProbeError::Malformed { reason: what });
    };
    let cuda_major = in_memory::cuda_major(&graph.handle);
    let installation = Installation::from_loaded(dir.clone(), Origin::Loaded, version, cuda_major);
    match options.requirements.check(&installation) {
        Ok(()) => Ok(Selected { installation, rejected: Arc::default() }),
        Err(error) => reject(&dir, Origin::Loaded, error),
    }
}

fn report(outcome: &Shared<Selected>) {
    match outcome {
        Ok(Selected { installation, rejected }) => {
            emit(&Event::SearchFinished { outcome: Ok(installation), rejected });
        }
        Err(failure) => {
            let error = LoadError::new(SubLibrary::Graph, failure.clone());
            emit(&Event::SearchFinished { outcome: Err(&error), rejected: &failure.rejected });
        }
    }
}

fn no_installation(rejected: Arc<Vec<RejectedCandidate>>) -> Arc<Failure> {
    Arc::new(Failure { kind: LoadErrorKind::NoInstallation, installation: None, rejected })
}

/// Whether a file is in this canonical directory: itself, or the file behind the link.
pub(crate) fn is_in(file: &Path, dir: &Path) -> bool {
    dir_of(file) == dir || canonicalize(file).is_ok_and(|file| file.parent() == Some(dir))
}

/// The directory of a loaded file, with links resolved if possible.
pub(crate) fn dir_of(file: &Path) -> PathBuf {
    let dir = file.parent().unwrap_or(file);
    canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}
