//! Reports mismatched cuDNN files among the dependencies of a program or library.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_frameworks::installation::majority;
use cudnn_frameworks::real_path;
use cudnn_probe::image::damaged_symbol_table;
use cudnn_probe::{Library, Version, missing_symbols};

use super::dependency::Dependency;
use crate::cudnn_file;
use crate::cudnn_file::shim_conflict;

/// Describes mixes that work but that a user should know about.
pub fn notes(dependencies: &[Dependency]) -> Vec<String> {
    let working = mixes(dependencies).into_iter().filter(|mix| mix.works);
    working.map(|mix| format!("{}; {OLDER_SHIM}", mix.message)).collect()
}

/// Describes the mixes that cause problems.
pub fn problems(dependencies: &[Dependency]) -> Vec<String> {
    let sentence =
        |dependency: &Dependency| Some(format!("{} {}", dependency.name.printable(), dependency.error.as_ref()?));
    let with_help = |mix: Mix| match mix.is_in_one_dir {
        true => format!("{}; install all libraries of one release, for one CUDA major", mix.message),
        false => format!("{}; remove one of them, or make one directory come first for all lookups", mix.message),
    };
    let mix = mixes(dependencies).into_iter().find(|mix| !mix.works).map(with_help);
    let mix = mix.or_else(|| symbol_mix(dependencies));
    dependencies.iter().filter_map(sentence).chain(mix).collect()
}

/// Reports a library without a version number that needs symbols missing from the other libraries.
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
        // Symbols missing from a damaged table say little about releases.
        let damage = || files.iter().chain([&file.to_owned()]).find_map(|file| damage_of(file));
        if let Some(damage) = (!missing.is_empty()).then(damage).flatten() {
            return Some(damage);
        }
        let (first, count) = (missing.first()?.printable(), missing.len());
        Some(format!(
            "{} is from a different release than the libraries it would be loaded with: they lack {count} of the symbols \
             that it needs, such as {first}; install all libraries of one release together",
            file.printable()
        ))
    })
}

fn damage_of(file: &Path) -> Option<String> {
    let error = damaged_symbol_table(file)?.to_string().printable();
    Some(format!("{} {error}; reinstall this cuDNN", file.printable()))
}

/// The reason why a shim mixed with newer libraries is not an error.
pub(crate) const OLDER_SHIM: &str = "a shim of an older release works with newer libraries";

pub(crate) struct Mix {
    pub(crate) message: String,
    /// The library that does not match graph.
    pub(crate) name: String,
    /// Whether the files share a directory, so that no search path can separate them.
    pub(crate) is_in_one_dir: bool,
    /// Whether the only problem is a shim of an older release from a different directory.
    pub(crate) works: bool,
}

/// Finds libraries that do not fit graph: from a different release, for a different CUDA major, or from a different
/// directory if the release is unknown.
pub(crate) fn mixes(dependencies: &[Dependency]) -> Vec<Mix> {
    let is_graph = |dependency: &Dependency| cudnn_file::library(&dependency.name) == Some(Library::Graph);
    if !dependencies.iter().any(|dependency| is_graph(dependency) && dependency.file.is_some()) {
        return Vec::new();
    }
    let parts: Vec<Part<'_>> = dependencies.iter().filter_map(Part::of).collect();
    let Some(graph) = parts.iter().find(|part| part.library == Library::Graph) else { return Vec::new() };
    // Most libraries in graph's directory show which one is foreign, and that may be graph itself.
    let cuda = majority(parts.iter().filter(|part| part.dir == graph.dir).filter_map(|part| part.cuda_major));
    parts.iter().filter_map(|part| part.mix_with(graph, cuda)).collect()
}

struct Part<'a> {
    name: &'a str,
    library: Library,
    file: &'a Path,
    dir: PathBuf,
    /// The release of the file, or for a file without a version number, of the graph library in the same directory.
    release: Option<Version>,
    cuda_major: Option<u32>,
    cuda_at_most: Option<u32>,
}

impl Part<'_> {
    fn of(dependency: &Dependency) -> Option<Part<'_>> {
        let (library, file) = (cudnn_file::library(&dependency.name)?, dependency.file.as_deref()?);
        let dir = file.parent().unwrap_or(file);
        let identity = cudnn_file::identity(file);
        let beside = || cudnn_file::version(&file.with_file_name(Library::Graph.file_name()));
        Some(Part {
            name: &dependency.name,
            library,
            file,
            dir: real_path(dir),
            release: dependency.version.or_else(beside),
            cuda_major: identity.as_ref().and_then(|identity| identity.cuda_major),
            cuda_at_most: identity.and_then(|identity| identity.cuda_at_most),
        })
    }

    /// Explains why this file does not match graph and the libraries next to it, which are for this CUDA major.
    fn mix_with(&self, graph: &Part<'_>, cuda: Option<u32>) -> Option<Mix> {
        let is_in_one_dir = self.dir == graph.dir;
        let mix = |message, works| Some(Mix { message, name: self.name.to_owned(), is_in_one_dir, works });
        let (name, here, there) = (self.name.printable(), graph.dir.printable(), self.dir.printable());
        // If a shim is next to a different graph, it belongs to that release.
        if self.library == Library::Shim
            && (is_in_one_dir || self.release.is_none())
            && let Some(expected) = graph.release
            && let Some(conflict) = shim_conflict(self.file, expected)
        {
            let are = if is_in_one_dir { "are" } else { "would be" };
            let file = self.file.printable();
            return mix(
                format!("two releases {are} mixed: {file} {conflict}, and graph in {here} is {expected}"),
                false,
            );
        }
        // The file may only give an upper limit, which contradicts a newer CUDA major without identifying one.
        let below = |most: &u32| self.cuda_major.is_some_and(|major| major > *most);
        let other_cuda = cuda.or(graph.cuda_at_most.filter(below)).and_then(|expected| {
            let found = self.cuda_major.or(self.cuda_at_most.filter(|most| *most < expected))?;
            (found != expected).then_some((expected, found))
        });
        let is_older_shim = self.library == Library::Shim && self.release < graph.release;
        match (self.release, graph.release) {
            (Some(found), Some(expected)) if found != expected && is_in_one_dir => {
                mix(format!("two releases are mixed in {here}: {name} is {found}, graph is {expected}"), false)
            }
            // An older shim works, unlike a shim for a different CUDA.
            (Some(found), Some(expected)) if found != expected && !(is_older_shim && other_cuda.is_some()) => {
                mix(format!("two releases would be mixed: {expected} in {here} and {found} in {there}"), is_older_shim)
            }
            (None, Some(expected)) if !is_in_one_dir => mix(
                format!(
                    "{name} would be loaded from {there}, where the release is unknown, next to {expected} in {here}"
                ),
                false,
            ),
            _ => {
                let (expected, found) = other_cuda?;
                let mixed = match is_in_one_dir {
                    true => format!("are mixed in {here}: {name} is for CUDA {found}, the others for CUDA {expected}"),
                    false => format!("would be mixed: CUDA {expected} in {here} and CUDA {found} in {there}"),
                };
                mix(format!("libraries for two CUDA majors {mixed}"), false)
            }
        }
    }
}

#[cfg(test)]
mod tests;
