//! Identifies the library and release of cuDNN files.

use cudnn_cli::command::Command;
use cudnn_frameworks::cudnn_library;
pub(crate) use cudnn_frameworks::drop_in_version;
use cudnn_frameworks::installation::InstallationReport;
pub use cudnn_frameworks::{drop_in_version_named, is_drop_in, is_drop_in_named};
use cudnn_loader::Function;
use cudnn_probe::{Identity, Library, Os, Version, exports, facts, identify_any};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::packages::entries;

/// Returns the file's release. NVIDIA's shim contains no version, so it is assumed to match the graph library next to
/// it, unless its exported functions contradict this.
pub fn version(file: &Path) -> Option<Version> {
    match library(file.file_name()?.to_str()?)? {
        Library::Shim => version(&file.with_file_name(Library::Graph.file_name()))
            .filter(|graph| shim_conflict(file, *graph).is_none()),
        _ => identity(file)?.version,
    }
}

/// Returns the version of the drop-in in front of this installation, if any.
pub fn drop_in_before(report: &InstallationReport) -> Option<String> {
    drop_in_version(&report.library(Library::Shim)?.path)
}

pub(crate) fn drop_in_dir(report: &InstallationReport) -> Option<&Path> {
    drop_in_before(report)?;
    report.library(Library::Shim)?.path.parent()
}

pub(crate) fn identity(file: &Path) -> Option<Identity> {
    identify_any(file, library(file.file_name()?.to_str()?)?).ok()
}

/// Returns the library with this path or file name, which may include the full version.
pub fn library(name: &str) -> Option<Library> {
    cudnn_library(Path::new(name).file_name()?.to_str()?)
}

/// Returns the cuDNN 9 files in a directory, without static libraries.
pub(crate) fn files_of_cudnn(dir: &Path) -> Vec<PathBuf> {
    let is_cudnn_9 = |name: &str| {
        if let Some(stem) = name.strip_suffix("64_9.dll") {
            return stem.starts_with("cudnn");
        }
        let Some((stem, version)) = name.split_once(".so.") else { return false };
        (stem == "libcudnn" || stem.starts_with("libcudnn_")) && (version == "9" || version.starts_with("9."))
    };
    let is_file = |file: &PathBuf| file.file_name().and_then(OsStr::to_str).is_some_and(is_cudnn_9);
    let mut files: Vec<PathBuf> = entries(dir).filter(is_file).collect();
    files.sort();
    files
}

#[allow(clippy::disallowed_methods, reason = "the answer is recorded")]
pub(crate) fn sha256(file: &Path) -> Option<String> {
    facts::ask("sha256", file, || cudnn_fetch::sha256(file))
}

/// Returns the command that prints the sha256 of cuDNN libraries in a directory.
pub(crate) fn sums_of_cudnn(dir: &Path) -> Command {
    match Os::HOST {
        Os::Windows => Command::new("Get-FileHash", ["-LiteralPath"]).and(files_of_cudnn(dir)),
        _ => Command::new("sha256sum", files_of_cudnn(dir)),
    }
}

/// Explains why this shim contradicts the release of graph, for example `is of cuDNN 9.26.0 or newer`. Returns `None`
/// for a matching shim, the drop-in, and a shim with unreadable functions.
pub fn shim_conflict(shim: &Path, graph: Version) -> Option<String> {
    if is_drop_in(shim) {
        return None;
    }
    let names: Vec<&str> = Function::names().collect();
    let exported = exports(shim, &names).ok()?;
    let with = |wanted: bool| {
        let functions = Function::ALL.iter().zip(&exported);
        functions.filter(move |(_, is_there)| **is_there == wanted).map(|(function, _)| function.since())
    };
    // NVIDIA's shim always exports the functions of the first release.
    let (oldest, before) = (with(true).max()?, with(false).min());
    match before {
        Some(before) if before <= Version::new(9, 0, 0) => None,
        Some(before) if graph >= before => Some(format!("is of a cuDNN before {before}")),
        _ if graph < oldest => Some(format!("is of cuDNN {oldest} or newer")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
