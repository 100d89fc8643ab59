//! Simulates how Windows searches for DLLs in this process.

use std::path::{Path, PathBuf};

use cudnn_os::{libraries, objects};
use cudnn_probe::Host;
use cudnn_probe::dll_search::ProcessFacts;
use cudnn_probe::dll_search::in_process::{self, Missing};

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
    let Some(obstacle) = in_process::obstacle(path, &facts()) else {
        return DlopenError { cause: DlErrorKind::Other, message };
    };
    let message = format!("{message} The files show: {}", obstacle.text);
    let cause = match obstacle.missing {
        Some(Missing::Dll(name)) => DlErrorKind::MissingDependency { name },
        Some(Missing::Symbol(name, library)) => DlErrorKind::UndefinedSymbol { name, library },
        None => DlErrorKind::Other,
    };
    DlopenError { cause, message }
}

/// Returns the file that opening this name would load.
pub(super) fn resolve(facts: &ProcessFacts, name: &str) -> Option<PathBuf> {
    in_process::resolve(facts, name).filter(|choice| choice.is_usable).map(|choice| choice.path)
}

/// Returns whether the name resolves to a file in the working directory, where any user may have placed it.
pub(super) fn is_in_working_dir(facts: &ProcessFacts, name: &str) -> bool {
    in_process::resolve(facts, name).is_some_and(|choice| choice.is_in_working_dir)
}
