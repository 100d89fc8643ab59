//! Compares the libraries of an installation with each other.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::internal::{damaged_symbol_table, is_candidate, missing_symbols_for};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Architecture, Identity, Library, Os, ProbeError, Version, canonicalize, identify_any};

use super::package::Package;
use crate::parallel::in_parallel;

/// One library of an installation.
#[derive(Debug)]
pub struct LibraryReport {
    /// The library.
    pub library: Library,
    /// Its file.
    pub path: PathBuf,
    /// The identity that the file states, or why it cannot be used on the system that it is for.
    pub identity: Result<Identity, ProbeError>,
    /// The symbols of cuDNN that it needs and that the libraries it depends on lack: it is of another release. Known
    /// only if these libraries exist and are of the installation's release.
    pub missing_symbols: Vec<String>,
    /// The file as wheels installed it, by the record of each wheel that lists it.
    pub recorded: Vec<RecordedFile>,
}

/// A file as a wheel installed it, by the wheel's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// The wheel.
    pub package: Package,
    /// The length of the file, in bytes.
    pub len: u64,
    /// Its sha256 in URL-safe base64 without padding, if the record states it.
    pub sha256: Option<String>,
}

/// The libraries of cuDNN 9 for this system in a directory.
pub(super) fn read(dir: &Path, os: Os) -> Vec<LibraryReport> {
    let files = Library::ALL.iter().map(|library| (*library, dir.join(library.name_on(os))));
    let files = files.filter(|(_, path)| path.path_exists());
    files.map(|(library, path)| read_library(library, path)).collect()
}

fn read_library(library: Library, path: PathBuf) -> LibraryReport {
    let identity = identify_any(&path, library);
    LibraryReport { library, path, identity, missing_symbols: Vec::new(), recorded: Vec::new() }
}

/// The files that cuDNN opens under names with the version, if they are not those under the names without it. ld.so
/// takes the first name under which it finds a file for this processor.
pub(super) fn read_versioned(dir: &Path, version: Version, libraries: &[LibraryReport]) -> Vec<LibraryReport> {
    let is_opened = |library: &Library| *library != Library::Shim && has_library(version, *library);
    let read = |library: Library| {
        let [with_patch, with_minor, ..] = library.dlopen_names(version);
        let path = [with_patch, with_minor].map(|name| dir.join(name)).into_iter().find(|path| is_candidate(path))?;
        let file = |path: &Path| canonicalize(path).ok();
        if file(&path) == file(&dir.join(library.linux_name())) {
            return None;
        }
        let mut report = read_library(library, path);
        report.missing_symbols = missing_of(&report, libraries);
        if !report.missing_symbols.is_empty()
            && let Some(error) = damaged_symbol_table(&report.path)
        {
            report.identity = Err(error);
        }
        Some(report)
    };
    Library::ALL.iter().copied().filter(is_opened).filter_map(read).collect()
}

/// ld.so skips a library that is for another processor than the rest: to it, the library is missing.
pub(super) fn reject_other_architectures(libraries: &mut [LibraryReport]) {
    let identities = || libraries.iter().filter_map(|report| report.identity.as_ref().ok());
    let count = |wanted: Architecture| identities().filter(|identity| identity.architecture == wanted).count();
    let of_graph = identities().find(|identity| identity.library == Library::Graph);
    let of_graph = of_graph.map(|graph| graph.architecture).filter(|found| *found == Architecture::HOST);
    let all = identities().map(|identity| identity.architecture);
    let most = || all.max_by_key(|found| (count(*found), *found == Architecture::HOST));
    let Some(wanted) = of_graph.or_else(most) else { return };
    for report in libraries {
        if let Some(found) = report.identity.as_ref().ok().map(|identity| identity.architecture)
            && found != wanted
        {
            report.identity = Err(ProbeError::WrongArchitecture { found, wanted });
        }
    }
}

/// Compares the symbols of each library with those of the libraries that it depends on, if these can be read and are of
/// one release. Otherwise the symbols show only what the versions show already.
pub(super) fn add_missing_symbols(libraries: &mut [LibraryReport]) {
    let missing = in_parallel(libraries, |report| missing_of(report, libraries));
    let is_suspect = missing.iter().any(|missing| !missing.is_empty());
    let damage: Vec<Option<ProbeError>> =
        libraries.iter().map(|report| is_suspect.then(|| damaged_symbol_table(&report.path)).flatten()).collect();
    let is_damaged = damage.iter().any(Option::is_some);
    for ((report, missing), damage) in libraries.iter_mut().zip(missing).zip(damage) {
        // Symbols that cannot be found in a damaged table say nothing about releases.
        report.missing_symbols = if is_damaged { Vec::new() } else { missing };
        if let (Some(error), Ok(_)) = (damage, &report.identity) {
            report.identity = Err(error);
        }
    }
}

/// The symbols that a library needs, and that those of these libraries which it depends on lack.
fn missing_of(report: &LibraryReport, libraries: &[LibraryReport]) -> Vec<String> {
    let version_of = |library: Library| {
        let report = libraries.iter().find(|report| report.library == library)?;
        Some((report.path.clone(), report.identity.as_ref().ok()?.version?))
    };
    let Some((_, graph)) = version_of(Library::Graph) else { return Vec::new() };
    let dependencies = report.library.dependencies().iter().map(|other| version_of(*other));
    let of_release = dependencies.map(|found| found.filter(|(_, version)| *version == graph));
    let files: Option<Vec<PathBuf>> = of_release.map(|found| found.map(|(path, _)| path)).collect();
    let (Some(files), Ok(identity)) = (files, &report.identity) else { return Vec::new() };
    missing_symbols_for(identity.os, &report.path, &files).unwrap_or_default()
}
