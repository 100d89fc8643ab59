//! Lists the DLLs that Windows would load for a program, including DLLs that NVIDIA's shim opens by name.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::{self, PathFacts};
use std::collections::HashSet;
use std::path::Path;

use cudnn_probe::dll_search::{Failure, Lookup, Mode, ProcessFacts, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Host, Library, ProbeError};

use super::dependency::{BY_SHIM, Dependency};
use crate::cudnn_file;
use crate::system::product;

/// Lists every DLL of cuDNN and CUDA, and every unresolved name, once. Imports come before DLLs opened by name.
pub(crate) fn dependencies(file: &Path, host: &Host) -> Result<Vec<Dependency>, ProbeError> {
    let file = facts::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut simulation = started(&file, ProcessFacts::from_host(host))?;
    let mut dependencies = Vec::from_iter(Dependency::itself(&file, Rule::Path.to_string()));
    let imports =
        simulation.lookups().iter().filter(|lookup| is_relevant(lookup) && lookup.name != file.to_string_lossy());
    dependencies.extend(imports.filter_map(|lookup| dependency(None, lookup)));
    open(&mut simulation, Library::Shim, &BY_SHIM, &mut dependencies);
    open(&mut simulation, Library::Graph, Library::OPENED_BY_GRAPH, &mut dependencies);
    for failure in simulation.failures() {
        add_failure(failure, &mut dependencies);
    }
    let mut seen = HashSet::new();
    dependencies.retain(|dependency| seen.insert(dependency.name.to_ascii_lowercase()));
    Ok(dependencies)
}

/// Simulates a process with this program, or a process that opened this DLL by path. Windows then searches the file's
/// directory for imports, but not for DLLs opened by name.
fn started(file: &Path, facts: ProcessFacts) -> Result<Simulation, ProbeError> {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("exe")) {
        return Simulation::start(file, facts);
    }
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(file, Mode::AlteredSearchPath);
    // Starting the file as a program returns the reason for the failure.
    if simulation.modules().is_empty() { Simulation::start(file, facts) } else { Ok(simulation) }
}

/// Simulates which DLLs a cuDNN library opens by name, if it is loaded.
fn open(simulation: &mut Simulation, opener: Library, opened: &[Library], dependencies: &mut Vec<Dependency>) {
    let Some(file) = simulation.loaded(opener.windows_name()).map(Path::to_owned) else { return };
    // The drop-in opens no DLLs by name. It loads the installation that the loader selects.
    if cudnn_file::is_drop_in(&file) {
        return;
    }
    let version = cudnn_file::version(&file);
    // Older releases lack some libraries.
    let is_opened = |library: &&Library| version.is_none_or(|version| has_library(version, **library));
    for library in opened.iter().filter(is_opened) {
        let before = simulation.lookups().len();
        simulation.open(Path::new(library.windows_name()), Mode::Standard);
        let lookups = simulation.lookups().get(before..).unwrap_or_default();
        for lookup in lookups.iter().filter(|lookup| is_relevant(lookup)) {
            let Some(mut dependency) = dependency(Some(opener), lookup) else { continue };
            if dependency.file.is_none() {
                let is_there = file.with_file_name(library.windows_name()).leads_to_file();
                dependency.error = Some(match is_there {
                    true => format!(
                        "was not found: it is next to {}, which opens it by name only; put that directory on PATH",
                        file.printable()
                    ),
                    false => format!("was not found; {} opens it by name", opener.windows_name()),
                });
            }
            dependencies.push(dependency);
        }
    }
}

fn is_relevant(lookup: &Lookup) -> bool {
    product(&lookup.name).is_some() || matches!(lookup.resolution, Resolution::Missing | Resolution::Unusable { .. })
}

fn dependency(dlopened_by: Option<Library>, lookup: &Lookup) -> Option<Dependency> {
    let (file, rule, error) = match &lookup.resolution {
        // For an unusable file, the failure contains the reason.
        Resolution::Found { path, rule } | Resolution::Unusable { path, rule } => {
            (Some(path.clone()), rule.to_string(), None)
        }
        Resolution::Missing => {
            let by = lookup.requested_by.as_deref().map(|by| Path::new(by.file_name().unwrap_or_default()).printable());
            let by = by.map_or(String::new(), |by| format!("; {by} needs it"));
            (None, "not found".to_owned(), Some(format!("was not found{by}")))
        }
        _ => return None,
    };
    let name = Path::new(&lookup.name).file_name()?.to_string_lossy().into_owned();
    Some(Dependency { dlopened_by, ..Dependency::new(name, file, rule, error) })
}

fn add_failure(failure: &Failure, dependencies: &mut [Dependency]) {
    let (path, text) = match failure {
        Failure::MissingSymbol { symbol, dll, needed_by } => {
            (dll, format!("lacks {symbol}, which {} needs", needed_by.printable()))
        }
        Failure::Unusable { path, error, .. } => (path, error.to_string()),
        _ => return,
    };
    let is_it = |dependency: &&mut Dependency| dependency.file.as_ref() == Some(path);
    if let Some(dependency) = dependencies.iter_mut().find(is_it) {
        dependency.error.get_or_insert(text.printable());
    }
}
