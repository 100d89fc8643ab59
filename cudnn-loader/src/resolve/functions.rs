//! Resolves functions to addresses in the libraries of the selected installation.

use cudnn_probe::Library;
use cudnn_probe::release_facts::has_library;

use super::installation::{failure, selected};
use super::libraries::{Missing, load};
use crate::dl::objects::LoadedObjects;
use crate::error::{LoadError, LoadErrorKind};
use crate::events::without_failure_events;
use crate::function::Function;

/// Returns the address of cuDNN's function.
pub(crate) fn address(function: Function, objects: &mut LoadedObjects) -> Result<*mut (), LoadError> {
    find(function, objects).map_err(|error| error.with_function(function))
}

fn find(function: Function, objects: &mut LoadedObjects) -> Result<*mut (), LoadError> {
    let library = load(function.library(), objects).map_err(|error| match error.kind() {
        // The installation is older than this library. The error should name the function's first release. If a newer
        // installation left the library's file behind, it must not be used either.
        LoadErrorKind::LibraryMissing => too_new(function).unwrap_or(error),
        _ => error,
    })?;
    if function.may_plan() {
        open_plugins(objects)?;
    }
    library.own_symbol(function.symbol()).map(|address| address.cast()).map_err(|missing| {
        let path = library.path.clone();
        let kind = match missing {
            Missing::Absent => LoadErrorKind::SymbolMissing { path },
            Missing::Elsewhere(owner) => LoadErrorKind::SymbolElsewhere { path, owner },
        };
        too_new(function).unwrap_or_else(|| LoadError::new(function.library(), failure(kind)))
    })
}

/// Returns the error for a function that is newer than the installation, if it is.
fn too_new(function: Function) -> Option<LoadError> {
    let installed = selected()?.installation.version;
    let kind = LoadErrorKind::FunctionTooNew { installed };
    (installed < function.since()).then(|| LoadError::new(function.library(), failure(kind)))
}

/// Opens the heuristics and engines by absolute path, before graph opens them by name. cuDNN works without those that
/// are missing or cannot be opened.
///
/// # Errors
/// Returns an error if graph would open a library that is damaged or belongs to a different installation.
fn open_plugins(objects: &mut LoadedObjects) -> Result<(), LoadError> {
    let graph = load(Library::Graph, objects)?;
    // Graph opens only the plugins that its release includes.
    let in_release = |library: &Library| has_library(graph.installation.version, *library);
    for library in Library::OPENED_BY_GRAPH.iter().copied().filter(in_release) {
        match without_failure_events(|| load(library, objects)) {
            Err(error) if !matches!(error.kind(), LoadErrorKind::LibraryMissing | LoadErrorKind::Dlopen { .. }) => {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}
