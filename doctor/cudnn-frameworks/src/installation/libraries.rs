//! Compares the libraries of an installation.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_probe::image::{damaged_symbol_table, missing_symbols_for};
use cudnn_probe::ld_so::is_candidate;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Architecture, Identity, Library, Os, ProbeError, Version, canonicalize, identify_any};

use super::package::Package;
use crate::parallel::in_parallel;

/// A library of an installation.
#[derive(Debug)]
pub struct LibraryReport {
    /// The library.
    pub library: Library,
    /// The file.
    pub path: PathBuf,
    /// The identity, or the reason why the file is unusable on the target system.
    pub identity: Result<Identity, ProbeError>,
    /// Required cuDNN symbols that dependencies do not define, so the library is from a different release. Known only
    /// if the dependencies match the installation's release.
    pub missing_symbols: Vec<String>,
    /// The file according to all wheels that list it.
    pub recorded: Vec<RecordedFile>,
}

/// A file according to the record of a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// The wheel.
    pub package: Package,
    /// The length of the file in bytes.
    pub len: u64,
    /// The sha256 hash in URL-safe base64 without padding, if the record contains it.
    pub sha256: Option<String>,
}

pub(super) fn read(dir: &Path, os: Os) -> Vec<LibraryReport> {
    let files = Library::ALL.iter().map(|library| (*library, dir.join(library.name_on(os))));
    let files = files.filter(|(_, path)| path.path_exists());
    files.map(|(library, path)| read_library(library, path)).collect()
}

fn read_library(library: Library, path: PathBuf) -> LibraryReport {
    let identity = identify_any(&path, library);
    LibraryReport { library, path, identity, missing_symbols: Vec::new(), recorded: Vec::new() }
}

/// Reads the files that cuDNN opens under versioned names, if they differ from those under unversioned names. ld.so
/// uses the first name with a file for this processor.
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

/// Rejects libraries for a different processor than the rest, because ld.so skips them.
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

/// Compares the symbols of libraries and their dependencies. Dependencies that are unreadable or from a different
/// release are skipped, because their version is already reported.
pub(super) fn add_missing_symbols(libraries: &mut [LibraryReport]) {
    let missing = in_parallel(libraries, |report| missing_of(report, libraries));
    let is_suspect = missing.iter().any(|missing| !missing.is_empty());
    let damage: Vec<Option<ProbeError>> =
        libraries.iter().map(|report| is_suspect.then(|| damaged_symbol_table(&report.path)).flatten()).collect();
    let is_damaged = damage.iter().any(Option::is_some);
    for ((report, missing), damage) in libraries.iter_mut().zip(missing).zip(damage) {
        // A damaged symbol table may cause missing symbols.
        report.missing_symbols = if is_damaged { Vec::new() } else { missing };
        if let (Some(error), Ok(_)) = (damage, &report.identity) {
            report.identity = Err(error);
        }
    }
}

/// Returns the symbols that a library needs and no dependency defines.
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
