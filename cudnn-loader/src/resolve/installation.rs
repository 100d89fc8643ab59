//! Selects the installation that this process uses. The selection happens at first use. It is permanent
//! once the graph library is loaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudnn_probe::{
    Candidate, Host, Installation, Library, Origin, ProbeError, RejectedCandidate, Search, canonicalize, identify,
    installation_dir,
};

use super::attempts::{Attempts, Shared, When};
use super::in_memory;
use crate::dl::objects::{LoadedObject, LoadedObjects};
use crate::dl::run_paths::{self, RunPathDirs};
use crate::error::{Failure, LoadError, LoadErrorKind};
use crate::events::{LoaderEvent, emit};
use crate::options::Options;
use crate::sync::once::RaceOnce;

/// The selected installation and the directories that were rejected before it.
#[derive(PartialEq)]
pub(crate) struct Selected {
    pub(crate) installation: Installation,
    rejected: Arc<Vec<RejectedCandidate>>,
}

static SELECTED: Attempts<Selected> = Attempts::new(true);
/// The selection that graph was loaded from. It stays even if a thread that saw an earlier, equal search forgets that.
static IN_USE: RaceOnce<&'static Selected> = RaceOnce::new();
/// The options of the program's last explicit search. Searches that a function call triggers use the same options.
static REQUIRED: RaceOnce<Options> = RaceOnce::new();

/// Returns the installation that this process uses, or `None` before the first use. Never loads a library.
#[must_use]
pub fn installation() -> Option<&'static Installation> {
    Some(&selected()?.installation)
}

pub(crate) fn selected() -> Option<&'static Selected> {
    IN_USE.get().copied().or_else(|| SELECTED.success())
}

/// Makes the selection permanent, because graph was loaded from it.
pub(crate) fn keep(selected: &'static Selected) {
    IN_USE.get_or_init(|| selected);
}

/// Creates a failure that includes the selected installation and the rejected directories.
pub(crate) fn failure(kind: LoadErrorKind) -> Arc<Failure> {
    Arc::new(Failure {
        kind,
        installation: selected().map(|selected| selected.installation.clone()),
        rejected: selected().map(|selected| selected.rejected.clone()).unwrap_or_default(),
    })
}

/// Returns the last search.
pub(crate) fn last_search() -> Option<&'static Shared<Selected>> {
    SELECTED.last()
}

/// Makes the next use search again, if this is still the last search.
pub(crate) fn forget_search(search: &'static Shared<Selected>) {
    SELECTED.forget(search);
}

/// Makes the next use search again, if the last search failed.
pub(crate) fn forget_failed_search(when: When) {
    if let Some(failed) = SELECTED.failed(when) {
        SELECTED.forget(failed);
    }
}

/// Returns the selection. If necessary, selects an installation that meets the options. Function calls pass
/// no options and use the ones from the program's last explicit search.
pub(crate) fn select(options: Option<&Options>, objects: &LoadedObjects) -> Result<&'static Selected, LoadError> {
    if let Some(selected) = IN_USE.get() {
        return Ok(selected);
    }
    let outcome = SELECTED.get_or_try(|| {
        if let Some(options) = options {
            // A replaced value leaks.
            if REQUIRED.get().is_none_or(|required| !required.are_the_same_as(options)) {
                // The environment of that search is not a requirement.
                REQUIRED.replace(Options { host: None, ..options.clone() });
            }
        }
        let outcome = search(options.or(REQUIRED.get()).unwrap_or(&Options::default()), objects);
        report(&outcome);
        outcome
    });
    outcome.as_ref().map_err(|failure| LoadError::new(Library::Graph, failure.clone()))
}

/// Returns the file of NVIDIA's shim, if the process has loaded it. Ignores the drop-in, which has the same name.
#[must_use]
pub fn nvidia_shim() -> Option<PathBuf> {
    LoadedObjects::snapshot().nvidia_shim(Library::Shim.file_name())
}

/// Returns whether a loaded object lists the shim as a dependency.
#[must_use]
pub fn process_needs_shim() -> bool {
    LoadedObjects::snapshot().any_needs(Library::Shim.file_name())
}

fn search(options: &Options, objects: &LoadedObjects) -> Shared<Selected> {
    let host = options.host.clone().unwrap_or_else(Host::current);
    let mut search = Search::new(host.clone());
    if let Some(path) = &options.path {
        search = search.explicit(path);
    }
    if let Some(graph) = objects.find(Library::Graph.file_name()) {
        return adopt(&graph, &search, options);
    }
    // This is the drop-in, or a library that an application bundles with this crate.
    if let Some(dir) = objects.containing_library().as_deref().and_then(Path::parent) {
        search = search.add_adjacent(dir);
    }
    // If NVIDIA's shim is loaded but not used yet, it would load libraries from the directory of the shim.
    if let Some(dir) = objects.nvidia_shim(Library::Shim.file_name()).as_deref().and_then(Path::parent) {
        search = search.add_loaded(dir);
    }
    // As ld.so reads them: in secure-execution mode it trusts only some uses of `$ORIGIN`.
    let RunPathDirs { dependents, others } = run_paths::dirs_with_cudnn(&host, objects);
    search = search.run_paths(dependents, others);
    let selection = cudnn_probe::select(&search, &options.requirements);
    let rejected = Arc::new(selection.rejected);
    match selection.installation {
        Some(installation) => Ok(Selected { installation, rejected }),
        None => Err(no_installation(rejected)),
    }
}

/// Selects the cuDNN that the process has already loaded, or rejects it, because a second cuDNN must never be loaded.
/// The version comes from memory, because an update may have replaced the files.
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
        return reject(&dir, Origin::Loaded, ProbeError::without_version());
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
            emit(&LoaderEvent::SearchFinished { outcome: Ok(installation), rejected });
        }
        Err(failure) => {
            let error = LoadError::new(Library::Graph, failure.clone());
            emit(&LoaderEvent::SearchFinished { outcome: Err(&error), rejected: &failure.rejected });
        }
    }
}

fn no_installation(rejected: Arc<Vec<RejectedCandidate>>) -> Arc<Failure> {
    Arc::new(Failure { kind: LoadErrorKind::NoInstallation, installation: None, rejected })
}

/// Returns whether a file, or the target of a link, is in this canonical directory.
pub(crate) fn is_in(file: &Path, dir: &Path) -> bool {
    dir_of(file) == dir || canonicalize(file).is_ok_and(|file| file.parent() == Some(dir))
}

/// Returns the directory of a loaded file, with symbolic links resolved if possible.
pub(crate) fn dir_of(file: &Path) -> PathBuf {
    let dir = file.parent().unwrap_or(file);
    canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}
