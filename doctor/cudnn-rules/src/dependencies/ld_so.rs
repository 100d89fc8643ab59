//! Lists the files that ld.so would load for a program, including files that NVIDIA's shim opens with dlopen.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Lookup, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::{has_library, opens_library};
use cudnn_probe::{Library, Version, identify};

use super::dependency::{BY_SHIM, Dependency, with_canonical_dir};
use crate::cudnn_file;
use crate::system::product;

/// Lists every library of cuDNN and CUDA, and every unresolved name, once. Linked names come before names opened with
/// dlopen. A library is listed twice if the program's first call determines which file ld.so finds.
pub(crate) fn dependencies(mut simulation: Simulation) -> Vec<Dependency> {
    let file = simulation.objects().first().map(|object| &object.path);
    let mut dependencies = Vec::from_iter(file.and_then(|file| Dependency::itself(file, "by its path".into())));
    add_new(&mut dependencies, None, simulation.lookups());
    let start = simulation.fork();
    simulate_dlopens(&mut simulation, &mut dependencies);
    let mut seen = HashSet::new();
    dependencies.retain(|dependency| seen.insert(dependency.name.clone()));
    let of_shim = |dependency: &Dependency| dependency.dlopened_by == Some(Library::Shim);
    if let Some(last) = dependencies.iter().rposition(of_shim) {
        let others = other_orders(&start, &dependencies);
        dependencies.splice(last + 1..last + 1, others);
    }
    dependencies
}

/// Adds new lookups. Many libraries need the same files, which are listed once.
fn add_new<'a>(all: &mut Vec<Dependency>, opener: Option<Library>, steps: impl IntoIterator<Item = &'a Lookup>) {
    for step in steps.into_iter().filter(|step| is_relevant(step)) {
        if !all.iter().any(|known| known.name == step.name) {
            all.push(dependency(opener, step));
        }
    }
}

/// Lists the files that are loaded instead if a program's first call is into a library linked to graph. ld.so then
/// resolves graph for that library instead of for the shim, and ignores the shim's RPATH if the library contains a
/// RUNPATH.
fn other_orders(start: &Simulation, known: &[Dependency]) -> Vec<Dependency> {
    let Some(shim) = start.loaded(Library::Shim.file_name()) else { return Vec::new() };
    let version = known.iter().find(|dependency| dependency.name == Library::Graph.file_name());
    let version = version.and_then(|graph| graph.version).unwrap_or(Version::new(9, 0, 0));
    let mut others: Vec<Dependency> = Vec::new();
    let is_opened = |library: &&Library| **library != Library::Graph && has_library(version, **library);
    for library in BY_SHIM.iter().filter(is_opened) {
        let mut process = start.fork();
        let _ = library.dlopen_names(version).iter().any(|name| process.dlopen(name, shim));
        for step in process.lookups().iter().filter(|step| cudnn_file::library(&step.name).is_some()) {
            let file = file_of(step);
            let is_known = |other: &Dependency| other.name == step.name && other.file == file;
            let is_other = known.iter().any(|other| other.name == step.name && other.file.is_some());
            if file.is_some() && is_other && !known.iter().chain(&others).any(is_known) {
                let found = dependency(Some(Library::Shim), step);
                let rule = format!("{}, if the first call is into {library}", found.rule);
                others.push(Dependency { rule, ..found });
            }
        }
    }
    others
}

fn is_relevant(step: &Lookup) -> bool {
    // A program may open a library by path.
    let name = step.name.rsplit('/').next().unwrap_or_default();
    product(name).is_some() || !matches!(step.resolution, Resolution::Found { .. })
}

fn dependency(dlopened_by: Option<Library>, step: &Lookup) -> Dependency {
    let (rule, error) = match &step.resolution {
        Resolution::Found { rule, .. } => (rule_text(rule), None),
        Resolution::Unusable { rule, error, .. } => (rule_text(rule), Some(error.to_string().printable())),
        _ => ("not found".into(), Some(format!("was not found; {} needs it", name_of(&step.requested_by)))),
    };
    Dependency { dlopened_by, ..Dependency::new(step.name.clone(), file_of(step), rule, error) }
}

/// Returns the file that ld.so finds, even if it is unusable.
fn file_of(step: &Lookup) -> Option<PathBuf> {
    match &step.resolution {
        Resolution::Found { path, .. } | Resolution::Unusable { path, .. } => Some(with_canonical_dir(path)),
        _ => None,
    }
}

/// Describes the rule with short names, because the full paths are already listed.
fn rule_text(rule: &Rule) -> String {
    match rule {
        Rule::Rpath(file) => format!("RPATH of {}", name_of(file)),
        Rule::Runpath(file) => format!("RUNPATH of {}", name_of(file)),
        other => other.to_string().printable(),
    }
}

fn name_of(file: &Path) -> String {
    Path::new(file.file_name().unwrap_or_default()).printable()
}

/// Simulates the files that NVIDIA's shim opens on first calls, and then the engines that graph opens for the first
/// plan.
fn simulate_dlopens(simulation: &mut Simulation, dependencies: &mut Vec<Dependency>) {
    for (opener, opened) in [(Library::Shim, &BY_SHIM[..]), (Library::Graph, Library::OPENED_BY_GRAPH)] {
        let Some(from) = simulation.loaded(opener.file_name()) else { continue };
        let Some(file) = simulation.objects().get(from).map(|object| object.path.clone()) else { continue };
        // The drop-in loads the installation that the loader selects, without ld.so's search.
        if cudnn_file::is_drop_in(&file) {
            continue;
        }
        let known = cudnn_file::version(&file);
        // If the version is unknown, lookups of names with a full version simply fail.
        let version = known.unwrap_or(Version::new(9, 0, 0));
        // cuDNN ignores libraries left over from a newer release.
        let is_opened = |library: &&Library| known.is_none_or(|version| opens_library(version, **library));
        for library in opened.iter().filter(is_opened) {
            let mut tried = Vec::new();
            for name in library.dlopen_names(version) {
                let before = simulation.lookups().len();
                let is_loaded = simulation.dlopen(&name, from);
                tried = simulation.lookups().get(before..).unwrap_or_default().iter().collect();
                // Like a loaded file, an unusable one stops the search.
                if is_loaded || !is_missing(&tried) {
                    break;
                }
            }
            match tried.first().filter(|_| is_missing(&tried)) {
                // 9.20 opens a library that the packages lack.
                Some(_) if !known.is_none_or(|version| has_library(version, *library)) => {}
                // JIT-only sets omit most libraries, and older releases omit some.
                Some(step) => dependencies.push(Dependency {
                    name: library.file_name().into(),
                    rule: "not installed".into(),
                    error: not_installed(&file.with_file_name(library.file_name()), *library),
                    ..dependency(Some(opener), step)
                }),
                None => add_new(dependencies, Some(opener), tried),
            }
        }
    }
}

fn is_missing(tried: &[&Lookup]) -> bool {
    matches!(tried.first().map(|step| &step.resolution), Some(Resolution::Missing))
}

/// Explains why it is an error that ld.so does not find this library. ld.so silently skips unreadable files and broken
/// links, and NVIDIA's shim aborts the process on the first call if graph is missing.
fn not_installed(file: &Path, library: Library) -> Option<String> {
    let error = file.path_exists().then(|| identify(file, library).err()).flatten();
    let passed_over =
        error.map(|error| format!("was passed over: {} {}", file.printable(), error.to_string().printable()));
    let missing = || "was not found: NVIDIA's shim aborts the process on the first call".to_owned();
    passed_over.or_else(|| (library == Library::Graph).then(missing))
}
