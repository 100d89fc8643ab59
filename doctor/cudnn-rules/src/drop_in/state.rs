//! Determines from the files whether the drop-in is installed in a directory of cuDNN.

use cudnn_cli::escape::Printable;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{InstallationReport, Installer, Package};
use cudnn_loader::Function;
use cudnn_probe::layers::{LAYERS_FILE, TUNED_FILE, installed_layers};
use cudnn_probe::{Architecture, Host, Library, Os, Version, exports, facts, identify_any};

use super::source::has_layers;
use super::{KEPT, LAYERS};
use crate::cudnn_file::{is_drop_in, is_drop_in_named, sha256, shim_conflict};

const FIRST: Version = Version::new(9, 0, 0);

/// The drop-in's view of a cuDNN directory.
#[derive(Debug)]
pub struct DropInState {
    /// The library that programs load.
    pub shim: Shim,
    /// The backup of NVIDIA's shim.
    pub kept: BackupState,
    /// The layers next to the drop-in.
    pub layers: Layers,
    /// The layers that are on without CUDNN_LAYERS, as a list with commas.
    pub list: Option<String>,
    /// The cuDNN in the directory, if present.
    pub report: Option<InstallationReport>,
    /// The files of the drop-in in the directory.
    pub files: DropInFiles,
}

/// The paths of the drop-in's files in a directory of cuDNN.
#[derive(Debug)]
pub struct DropInFiles {
    /// `libcudnn.so.9`.
    pub shim: PathBuf,
    /// The backup of NVIDIA's shim, [`KEPT`].
    pub kept: PathBuf,
    /// The library with the layers, [`LAYERS`].
    pub layers: PathBuf,
    /// The list of layers that are on, [`LAYERS_FILE`].
    pub list: PathBuf,
    /// The rankings of the layer `tuned`, [`TUNED_FILE`].
    pub tuned: PathBuf,
}

impl DropInFiles {
    /// Returns the paths in this directory, whether the files exist or not.
    pub fn in_dir(dir: &Path) -> DropInFiles {
        DropInFiles {
            shim: dir.join(Library::Shim.file_name()),
            kept: dir.join(KEPT),
            layers: dir.join(LAYERS),
            list: dir.join(LAYERS_FILE),
            tuned: dir.join(TUNED_FILE),
        }
    }
}

/// The `libcudnn.so.9` that programs load.
#[derive(Debug, PartialEq, Eq)]
pub enum Shim {
    /// The file is missing.
    Missing,
    /// NVIDIA's shim of the installed release.
    Nvidia,
    /// This project's drop-in.
    DropIn,
    /// Any other file, with the reason as a predicate.
    Other(String),
}

/// The backup of NVIDIA's shim.
#[derive(Debug, PartialEq, Eq)]
pub enum BackupState {
    /// The backup is missing.
    Missing,
    /// NVIDIA's shim of the installed release.
    OfThisRelease,
    /// Any other file, with the reason as a predicate.
    Stale(String),
}

/// The library with this project's layers.
#[derive(Debug, PartialEq, Eq)]
pub enum Layers {
    /// The file is missing.
    Missing,
    /// This project's library.
    Ours,
    /// Any other file.
    Other,
}

impl DropInState {
    /// Reads the files in this directory.
    pub fn read(dir: &Path, host: &Host) -> DropInState {
        // The drop-in only supports cuDNN 9.
        let report = InstallationReport::read(dir, host).filter(|report| report.major == 9);
        let files = DropInFiles::in_dir(dir);
        let shim = match facts::symlink_metadata(&files.shim) {
            Err(_) => Shim::Missing,
            Ok(_) if is_drop_in(&files.shim) => Shim::DropIn,
            Ok(_) => match fault(&files.shim, report.as_ref()) {
                None => Shim::Nvidia,
                Some(reason) => Shim::Other(reason),
            },
        };
        let kept = match facts::symlink_metadata(&files.kept) {
            Err(_) => BackupState::Missing,
            Ok(_) => fault(&files.kept, report.as_ref()).map_or(BackupState::OfThisRelease, BackupState::Stale),
        };
        let layers = match facts::symlink_metadata(&files.layers) {
            Err(_) => Layers::Missing,
            Ok(_) if has_layers(&files.layers) => Layers::Ours,
            Ok(_) => Layers::Other,
        };
        let list = installed_layers(dir).map(|list| list.to_string_lossy().into_owned());
        DropInState { shim, kept, layers, list, report, files }
    }

    /// Returns whether a cuDNN is present, even if it is incomplete.
    pub fn has_cudnn(&self) -> bool {
        let libraries = self.report.iter().flat_map(|report| &report.libraries);
        libraries.into_iter().any(|part| part.library != Library::Shim)
    }

    /// Explains why `uninstall` cannot restore NVIDIA's shim from the backup.
    pub fn problem_of_backup(&self) -> String {
        match &self.kept {
            BackupState::Stale(reason) => format!("{KEPT} {reason}"),
            _ => format!("NVIDIA's {} was not saved as {KEPT}", Library::Shim),
        }
    }

    /// Returns whether there are files that turn layers on.
    pub fn has_options(&self) -> bool {
        [&self.files.list, &self.files.tuned].iter().any(|file| facts::symlink_metadata(file).is_ok())
    }

    /// Returns whether a package's records list a `libcudnn.so.9`.
    pub fn has_recorded_shim(&self) -> bool {
        let shim = self.report.as_ref().and_then(|report| report.library(Library::Shim));
        shim.is_some_and(|shim| !shim.recorded.is_empty())
    }

    /// Returns the release of cuDNN, which is read from the graph library.
    pub fn version(&self) -> Option<Version> {
        self.report.as_ref()?.library(Library::Graph)?.identity.as_ref().ok()?.version
    }

    /// Formats a title such as `cuDNN 9.19.0 in DIR`.
    pub fn title(&self, dir: &Path) -> String {
        let version = self.version().map_or(String::new(), |version| format!(" {version}"));
        format!("cuDNN{version} in {}", dir.printable())
    }
}

/// Returns the system package that owns an installation, which is shared by all users.
pub fn shared_package(report: &InstallationReport) -> Option<&Package> {
    report.package.as_ref().filter(|package| matches!(package.installer, Installer::Dpkg | Installer::Rpm))
}

/// Explains as a predicate why this file is not NVIDIA's shim of the installed release.
fn fault(file: &Path, report: Option<&InstallationReport>) -> Option<String> {
    let identity = match identify_any(file, Library::Shim) {
        Ok(identity) => identity,
        Err(error) => return Some(error.to_string().printable()),
    };
    if identity.os != Os::HOST || identity.architecture != Architecture::HOST {
        return Some(format!("is for {} on {}", identity.os, identity.architecture));
    }
    if is_drop_in_named(Path::new(Library::Shim.file_name()), file) {
        return Some("is the drop-in, not NVIDIA's shim".into());
    }
    let first = Function::ALL.iter().filter(|function| function.since() <= FIRST);
    let first: Vec<&str> = first.map(|function| function.name()).collect();
    if !exports(file, &first).is_ok_and(|found| found.iter().all(|is_there| *is_there)) {
        return Some(format!("is not NVIDIA's shim: it lacks functions that cuDNN {FIRST} has"));
    }
    let report = report?;
    if let Some(graph) = report.library(Library::Graph).and_then(|part| part.identity.as_ref().ok()?.version)
        && let Some(conflict) = shim_conflict(file, graph)
    {
        return Some(format!("{conflict}, but the {} next to it is {graph}", Library::Graph));
    }
    let recorded = &report.library(Library::Shim)?.recorded;
    let hashes: Vec<&String> = recorded.iter().map(|recorded| recorded.sha256.as_ref()).collect::<Option<_>>()?;
    let package = &recorded.last()?.package;
    let found = sha256(file);
    let is_recorded = hashes.into_iter().any(|recorded| Some(recorded) == found.as_ref());
    let package = package.to_string().printable();
    (!is_recorded).then(|| format!("is not the file that {package} installed: the sha256 differs"))
}
