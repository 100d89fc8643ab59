//! Identifies the library and release of cuDNN files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_cli::command::Command;
use cudnn_frameworks::cudnn_library;
use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::{Identity, Library, Os, Version, facts, identify_any};

use crate::packages::entries;
use crate::shim_release;

pub(crate) use cudnn_frameworks::drop_in_version;
pub use cudnn_frameworks::{drop_in_version_named, is_drop_in, is_drop_in_named};

/// Returns the file's release. NVIDIA's shim contains no version, so it is assumed to match the graph library next to
/// it, unless its exported functions contradict this.
pub fn version(file: &Path) -> Option<Version> {
    match library(file.file_name()?.to_str()?)? {
        Library::Shim => version(&file.with_file_name(Library::Graph.file_name()))
            .filter(|graph| shim_release::conflict(file, *graph).is_none()),
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

#[cfg(test)]
mod tests;
