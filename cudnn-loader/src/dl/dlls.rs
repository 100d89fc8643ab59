//! Simulates how Windows searches for DLLs in this process.

use std::path::{Path, PathBuf};

use cudnn_os::{libraries, objects};
use cudnn_probe::Host;
use cudnn_probe::dll_search::{self, Failure, ProcessFacts, Resolution, Rule, Symbol};

use super::dlerror::{DlErrorKind, DlopenError};

/// Collects the properties of this process that the DLL search depends on.
pub(super) fn facts() -> ProcessFacts {
    let mut facts = ProcessFacts::from_host(&Host::current());
    facts.system_dir = libraries::system_dir();
    facts.working_dir = std::env::current_dir().ok();
    facts.dll_directory = libraries::added_dir();
    facts.loaded = objects::read_list().into_iter().map(|entry| entry.path).collect();
    facts
}

/// Adds details that Windows omits: the missing DLL or symbol, or the other file that failed to load.
pub(super) fn to_open_error(message: String, path: &Path) -> DlopenError {
    let Some(failure) = dll_search::explain(path, &facts()) else {
        return DlopenError { cause: DlErrorKind::Other, message };
    };
    let message = format!("{message} The files show: {failure}");
    let cause = match failure {
        Failure::MissingDll { name, needed_by: Some(_) } => DlErrorKind::MissingDependency { name },
        Failure::MissingSymbol { symbol: Symbol::Name(name), dll, .. } => {
            let library = dll.file_name().map(|name| name.to_string_lossy().into_owned());
            DlErrorKind::UndefinedSymbol { name, library }
        }
        _ => DlErrorKind::Other,
    };
    DlopenError { cause, message }
}

/// Returns the file that opening this name would load.
pub(super) fn resolve(facts: &ProcessFacts, name: &str) -> Option<PathBuf> {
    match dll_search::resolve(name, facts) {
        Some(Resolution::Found { path, .. }) => Some(path),
        _ => None,
    }
}

/// Returns whether the name resolves to a file in the working directory, where any user may have placed it.
pub(super) fn is_in_working_dir(facts: &ProcessFacts, name: &str) -> bool {
    let found = dll_search::resolve(name, facts);
    matches!(found, Some(Resolution::Found { rule, .. } | Resolution::Unusable { rule, .. }) if rule == Rule::WorkingDir)
}
