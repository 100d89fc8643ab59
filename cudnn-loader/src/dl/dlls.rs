//! Simulates how Windows searches for DLLs in this process.

use std::path::{Path, PathBuf};

use cudnn_os::{libraries, objects};
use cudnn_probe::Host;
use cudnn_probe::dll_search::{self, Facts, Failure, Mode, Resolution, Rule, Simulation, Symbol};

use super::dlerror::{DlErrorKind, OpenError};

/// Collects the properties of this process that the DLL search depends on.
pub(super) fn facts() -> Facts {
    let mut facts = Facts::of_host(&Host::current());
    facts.system_dir = libraries::system_dir();
    facts.working_dir = std::env::current_dir().ok();
    facts.dll_directory = libraries::added_dir();
    facts.loaded = objects::read_list().into_iter().map(|entry| entry.path).collect();
    facts
}

/// Adds details that Windows omits: the missing DLL or symbol, or the other file that failed to load.
pub(super) fn to_open_error(message: String, path: &Path) -> OpenError {
    let Some(failure) = dll_search::explain(path, &facts()) else {
        return OpenError { cause: DlErrorKind::Other, message };
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
    OpenError { cause, message }
}

/// Returns the file that opening this name would load. Assumes that the DLL that opens it adds no directories.
pub(super) fn resolve(facts: &Facts, name: &str) -> Option<PathBuf> {
    match &open(facts, name).lookups().first()?.resolution {
        Resolution::Found { path, .. } => Some(path.clone()),
        _ => None,
    }
}

/// Returns whether the name resolves to a file in the working directory, where any user may have placed it.
pub(super) fn is_in_working_dir(facts: &Facts, name: &str) -> bool {
    let simulation = open(facts, name);
    let rule = simulation.lookups().first().and_then(|lookup| match lookup.resolution {
        Resolution::Found { rule, .. } | Resolution::Unusable { rule, .. } => Some(rule),
        _ => None,
    });
    rule == Some(Rule::WorkingDir)
}

#[inline(never)]
fn open(facts: &Facts, name: &str) -> Simulation {
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(Path::new(name), Mode::Standard);
    simulation
}
