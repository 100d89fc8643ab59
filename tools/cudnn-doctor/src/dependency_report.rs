//! The files that ld.so would load for a program or library, including those that NVIDIA's shim and graph open with
//! dlopen, and whether these files belong together.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Lookup, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Host, Identity, Library, Os, ProbeError, Version, damaged_symbol_table, identify, missing_symbols};

use crate::cudnn_file;
use crate::dependency::{BY_SHIM, Dependency};
use crate::dll_report;
use crate::escape::Printable;
use crate::shim_release;

/// What this system would load for a program or library.
///
/// # Errors
/// The file cannot be loaded on this system.
pub(crate) fn dependencies_of(file: &Path, host: &Host) -> Result<Vec<Dependency>, ProbeError> {
    match Os::HOST {
        Os::Windows => dll_report::dependencies(file, host),
        _ => Ok(dependencies(Simulation::new(file, host)?)),
    }
}

/// Each library of cuDNN and CUDA, and each name that cannot be resolved, once: linked names first, then those opened
/// with dlopen. A library that another file would be loaded for, depending on a program's first call, is there twice.
pub(crate) fn dependencies(mut simulation: Simulation) -> Vec<Dependency> {
    let mut dependencies: Vec<Dependency> = file_itself(&simulation).into_iter().collect();
    dependencies
        .extend(simulation.lookups().iter().filter(|step| is_relevant(step)).map(|step| dependency(None, step)));
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

/// The other files of cuDNN that are loaded if a program's first call is into a library that is linked to graph: then
/// ld.so searches graph for that library, and not for the shim. An RPATH of the shim does not apply, if the library has
/// a RUNPATH.
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
            let found = dependency(Some(Library::Shim), step);
            let is_known = |other: &Dependency| other.name == found.name && other.file == found.file;
            let is_other = known.iter().any(|other| other.name == found.name && other.file.is_some());
            if found.file.is_some() && is_other && !known.iter().chain(&others).any(is_known) {
                let rule = format!("{}, if the first call is into {library}", found.rule);
                others.push(Dependency { rule, ..found });
            }
        }
    }
    others
}

fn is_relevant(step: &Lookup) -> bool {
    const PREFIXES: [&str; 6] = ["libcudnn", "libcublas", "libcudart", "libnvrtc", "libcuda.so", "libnvJitLink"];
    // A program may open a library by its path.
    let name = step.name.rsplit('/').next().unwrap_or_default();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || !matches!(step.resolution, Resolution::Found { .. })
}

fn dependency(dlopened_by: Option<Library>, step: &Lookup) -> Dependency {
    let (file, rule, error) = match &step.resolution {
        Resolution::Found { path, rule } => (Some(with_canonical_dir(path)), rule_text(rule), None),
        Resolution::Unusable { path, rule, error } => {
            (Some(with_canonical_dir(path)), rule_text(rule), Some(error.to_string().printable()))
        }
        _ => {
            let by = Path::new(step.requested_by.file_name().unwrap_or_default()).printable();
            (None, "not found".into(), Some(format!("was not found; {by} needs it")))
        }
    };
    let version = file.as_deref().and_then(cudnn_file::version);
    Dependency { dlopened_by, name: step.name.clone(), file, rule, version, error }
}

/// The file itself, if it belongs to cuDNN.
fn file_itself(simulation: &Simulation) -> Option<Dependency> {
    let path = &simulation.objects().first()?.path;
    let name = path.file_name()?.to_str()?.to_owned();
    cudnn_file::library(&name)?;
    Some(Dependency {
        dlopened_by: None,
        name,
        file: Some(path.clone()),
        rule: "by its path".into(),
        version: cudnn_file::version(path),
        error: None,
    })
}

/// The file, with `lib/../../nvidia` resolved in its directory.
pub(crate) fn with_canonical_dir(file: &Path) -> PathBuf {
    let dir = file.parent().and_then(|dir| cudnn_probe::canonicalize(dir).ok());
    dir.zip(file.file_name()).map_or(file.to_owned(), |(dir, name)| dir.join(name))
}

/// The rule; a file that it names is listed above with its full path.
fn rule_text(rule: &Rule) -> String {
    let name = |file: &Path| Path::new(file.file_name().unwrap_or_default()).printable();
    match rule {
        Rule::Rpath(file) => format!("RPATH of {}", name(file)),
        Rule::Runpath(file) => format!("RUNPATH of {}", name(file)),
        other => other.to_string().printable(),
    }
}

/// Simulates what NVIDIA's shim opens on first calls, then what graph opens when it first plans something.
fn simulate_dlopens(simulation: &mut Simulation, dependencies: &mut Vec<Dependency>) {
    for (opener, opened) in [(Library::Shim, &BY_SHIM[..]), (Library::Graph, Library::OPENED_BY_GRAPH)] {
        let Some(from) = simulation.loaded(opener.file_name()) else { continue };
        // The drop-in opens nothing by ld.so's rules: it loads the installation that the loader selects.
        if simulation.objects().get(from).is_some_and(|object| cudnn_file::is_drop_in(&object.path)) {
            continue;
        }
        let known = simulation.objects().get(from).and_then(|object| cudnn_file::version(&object.path));
        // For an unknown version, the names with a full version are simply not found.
        let version = known.unwrap_or(Version::new(9, 0, 0));
        // A release does not open a library that is left over from a newer one.
        let is_opened = |library: &&Library| known.is_none_or(|version| has_library(version, **library));
        for library in opened.iter().filter(is_opened) {
            let mut tried = Vec::new();
            for name in library.dlopen_names(version) {
                let before = simulation.lookups().len();
                let is_loaded = simulation.dlopen(&name, from);
                tried = simulation.lookups().get(before..).unwrap_or_default().iter().collect();
                // A file that exists but cannot be loaded ends the attempts, as a loaded one does.
                if is_loaded || !is_missing(&tried) {
                    break;
                }
            }
            match tried.first().filter(|_| is_missing(&tried)) {
                // JIT-only sets lack most libraries, and older releases lack some.
                Some(step) => {
                    let beside = simulation.objects().get(from).map(|opener| opener.path.clone()).unwrap_or_default();
                    let beside = beside.with_file_name(library.file_name());
                    dependencies.push(Dependency {
                        name: library.file_name().into(),
                        rule: "not installed".into(),
                        error: passed_over(&beside, *library).or_else(|| missing_graph(*library)),
                        ..dependency(Some(opener), step)
                    });
                }
                None => {
                    let relevant = tried.into_iter().filter(|step| is_relevant(step));
                    dependencies.extend(relevant.map(|step| dependency(Some(opener), step)));
                }
            }
        }
    }
}

fn is_missing(tried: &[&Lookup]) -> bool {
    matches!(tried.first().map(|step| &step.resolution), Some(Resolution::Missing))
}

/// The reason why a file cannot be used. ld.so silently skips unreadable files and broken links.
fn passed_over(file: &Path, library: Library) -> Option<String> {
    file.symlink_metadata().ok()?;
    let error = identify(file, library).err()?;
    Some(format!("was passed over: {} {}", file.printable(), error.to_string().printable()))
}

/// NVIDIA's shim without graph aborts the process at its first call.
fn missing_graph(library: Library) -> Option<String> {
    let error = "was not found: NVIDIA's shim aborts the process on the first call";
    (library == Library::Graph).then(|| error.to_owned())
}

/// What a user should know although it works, in sentences.
pub(crate) fn notes(dependencies: &[Dependency]) -> Vec<String> {
    let working = mixes(dependencies).into_iter().filter(|mix| mix.works);
    working.map(|mix| format!("{}; {OLDER_SHIM}", mix.message)).collect()
}

/// The problems, in sentences.
pub(crate) fn problems(dependencies: &[Dependency]) -> Vec<String> {
    let sentence =
        |dependency: &Dependency| Some(format!("{} {}", dependency.name.printable(), dependency.error.as_ref()?));
    let mix = mixes(dependencies)
        .into_iter()
        .find(|mix| !mix.works)
        .map(|mix| {
            let help = if mix.is_in_one_dir {
                "install all libraries of one release, for one CUDA major"
            } else {
                "remove one of them, or make one directory come first for all lookups"
            };
            format!("{}; {help}", mix.message)
        })
        .or_else(|| symbol_mix(dependencies));
    dependencies.iter().filter_map(sentence).chain(mix).collect()
}

/// A library that states no version, and needs symbols that the libraries which it would be loaded with lack.
fn symbol_mix(dependencies: &[Dependency]) -> Option<String> {
    let file_of = |library: Library| {
        let is_it = |dependency: &&Dependency| cudnn_file::library(&dependency.name) == Some(library);
        dependencies.iter().find(is_it)?.file.clone()
    };
    dependencies.iter().find_map(|dependency| {
        let (library, file) = (cudnn_file::library(&dependency.name)?, dependency.file.as_deref()?);
        let files: Option<Vec<PathBuf>> = library.dependencies().iter().map(|other| file_of(*other)).collect();
        let files = files?;
        let missing = missing_symbols(file, &files).ok()?;
        // Symbols that cannot be found in a damaged table say nothing about releases.
        let damage = || files.iter().chain([&file.to_owned()]).find_map(|file| damage_of(file));
        if let Some(damage) = (!missing.is_empty()).then(damage).flatten() {
            return Some(damage);
        }
        let (first, count) = (missing.first()?.printable(), missing.len());
        Some(format!(
            "{} is of another release than the libraries that it would be loaded with: they lack {count} of the symbols \
             that it needs, such as {first}; install all libraries of one release together",
            file.printable()
        ))
    })
}

fn damage_of(file: &Path) -> Option<String> {
    let error = damaged_symbol_table(file)?.to_string().printable();
    Some(format!("{} {error}; reinstall this cuDNN", file.printable()))
}

/// Why a mix of a shim and newer libraries is no error.
pub(crate) const OLDER_SHIM: &str = "a shim of an older release works with newer libraries";

/// Files of cuDNN that do not belong together.
pub(crate) struct Mix {
    /// `two releases would be mixed: ..`
    pub(crate) message: String,
    /// The name of the library that does not belong to graph.
    pub(crate) name: String,
    /// They are in one directory, so that no search path separates them.
    pub(crate) is_in_one_dir: bool,
    /// It is the shim of an older release, from another directory.
    pub(crate) works: bool,
}

/// Libraries of two releases or two CUDA majors, or from two directories of which one does not state its release: each
/// that does not fit graph.
pub(crate) fn mixes(dependencies: &[Dependency]) -> Vec<Mix> {
    let cudnn = || {
        dependencies.iter().filter_map(|dependency| {
            Some((dependency, cudnn_file::library(&dependency.name)?, dependency.file.as_deref()?))
        })
    };
    let graph = cudnn().find(|(_, library, _)| *library == Library::Graph);
    let Some((graph, _, graph_file)) = graph else { return Vec::new() };
    let graph_dir = dir_of(graph_file);
    let files: HashSet<&Path> = cudnn().map(|(_, _, file)| file).collect();
    let identities: HashMap<&Path, Identity> =
        files.into_iter().filter_map(|file| Some((file, cudnn_file::identity(file)?))).collect();
    let cuda_major = |file: &Path| identities.get(file)?.cuda_major;
    // A limit alone is no CUDA major: it contradicts a newer one.
    let limit = |file: &Path, expected: Option<u32>| {
        identities.get(file)?.cuda_at_most.filter(|most| expected.is_some_and(|expected| *most < expected))
    };
    let graph_cuda = cudnn().filter(|(_, _, file)| dir_of(file) == graph_dir);
    // Most libraries beside graph show a foreign one among them, which can be graph itself.
    let graph_cuda = majority(graph_cuda.filter_map(|(_, _, file)| cuda_major(file)));
    // A library that states no version belongs to the release of the graph library beside it.
    let release = |dependency: &Dependency, file: &Path| {
        dependency.version.or_else(|| cudnn_file::version(&file.with_file_name(Library::Graph.file_name())))
    };
    let here = graph_dir.printable();
    let mix = |(dependency, library, file): (&Dependency, Library, &Path)| {
        let dir = dir_of(file);
        let is_in_one_dir = dir == graph_dir;
        let (there, name) = (dir.printable(), dependency.name.printable());
        // Beside another graph, it belongs to the release of that one.
        let is_unknown = is_in_one_dir || release(dependency, file).is_none();
        let shim = graph.version.filter(|_| library == Library::Shim && is_unknown);
        let shim = shim.and_then(|graph| Some((shim_release::conflict(file, graph)?, graph)));
        if let Some((conflict, graph)) = shim {
            let are = if is_in_one_dir { "are" } else { "would be" };
            let message =
                format!("two releases {are} mixed: {} {conflict}, and graph in {here} is {graph}", file.printable());
            return Some(Mix { message, name: dependency.name.clone(), is_in_one_dir, works: false });
        }
        let message = match (release(dependency, file), graph.version) {
            (Some(found), Some(expected)) if found != expected && is_in_one_dir => {
                Some(format!("two releases are mixed in {here}: {name} is {found}, graph is {expected}"))
            }
            (Some(found), Some(expected)) if found != expected => {
                Some(format!("two releases would be mixed: {expected} in {here} and {found} in {there}"))
            }
            (None, Some(expected)) if !is_in_one_dir => Some(format!(
                "{name} would be loaded from {there}, which does not state its release, beside {expected} in {here}"
            )),
            _ => match (cuda_major(file).or_else(|| limit(file, graph_cuda)), graph_cuda) {
                (Some(found), Some(expected)) if found != expected && is_in_one_dir => Some(format!(
                    "libraries for two CUDA majors are mixed in {here}: {name} is for CUDA {found}, the others for CUDA \
                     {expected}"
                )),
                (Some(found), Some(expected)) if found != expected => Some(format!(
                    "libraries for two CUDA majors would be mixed: CUDA {expected} in {here} and CUDA {found} in \
                     {there}"
                )),
                _ => None,
            },
        };
        let is_older = release(dependency, file).zip(graph.version).is_some_and(|(found, graph)| found < graph);
        let works = library == Library::Shim && !is_in_one_dir && is_older;
        message.map(|message| Mix { message, name: dependency.name.clone(), is_in_one_dir, works })
    };
    cudnn().filter_map(mix).collect()
}

/// The value that occurs most often; of several the first.
fn majority(values: impl Iterator<Item = u32>) -> Option<u32> {
    let values: Vec<u32> = values.collect();
    let count = |value: &u32| values.iter().filter(|other| *other == value).count();
    values.iter().rev().max_by_key(|value| count(value)).copied()
}

/// The directory of a file, by its real path.
fn dir_of(file: &Path) -> PathBuf {
    let dir = file.parent().unwrap_or(file);
    cudnn_probe::canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}
