//! Checks the plugins that `libcudnn_graph.so.9` opens by bare name when it first creates a plan: heuristics and
//! engines. Because it tries four names per plugin, ld.so may find the plugins of a different installation.

use std::path::{Path, PathBuf};

use cudnn_probe::release_facts::has_library;
use cudnn_probe::{FileIdentity, Installation, Library, ProbeError, identify, missing_symbols};

use super::installation::is_in;
use crate::dl;
use crate::dl::objects::LoadedObjects;
use crate::dl::search_path::{FINDS_PLUGINS, SearchPath};
use crate::error::LoadErrorKind;
use crate::names::DRIVER;

/// Ensures that graph opens plugins from the selected installation, and that they can be opened. All checks read files;
/// an unusable plugin is never opened.
///
/// Plugins may be missing, as in JIT-only installations. cuDNN also works without a plugin that needs symbols missing
/// from graph.
///
/// # Errors
/// Returns an error for the first unusable plugin. A plugin is unusable in any of these cases:
///
/// - The file is damaged. Opening a truncated file could end the process, and opening a pipe could hang.
/// - It was built for a different CUDA major version, which cuDNN does not detect.
/// - Graph would open a file from a different installation and release.
pub(crate) fn ensure_own_plugins(installation: &Installation, cuda_major: Option<u32>) -> Result<(), LoadErrorKind> {
    let mut expected = installation.clone();
    expected.cuda_major = cuda_major;
    let search_path = SearchPath::new(&dl::host());
    let objects = LoadedObjects::snapshot();
    // Graph opens only the plugins that its release includes.
    for library in
        Library::OPENED_BY_GRAPH.iter().copied().filter(|library| has_library(installation.version, *library))
    {
        let own = installation.path(library);
        let loaded = objects.find(library.file_name());
        let is_present = match expected.check(library) {
            Ok(_) => true,
            Err(ProbeError::NotFound) => false,
            // An update has replaced the file of a loaded plugin, which graph will not open again.
            Err(error) if loaded.is_some() && !matches!(error, ProbeError::MixedCuda { .. }) => true,
            Err(error) => {
                let (path, error) = expected.blame(library, error);
                return Err(LoadErrorKind::Rejected { path, error });
            }
        };
        if let Some(loaded) = loaded {
            if !is_in(&loaded.path, &installation.dir) && !is_of_release(&expected, library, &loaded.path) {
                return Err(foreign(installation, loaded.path));
            }
            continue;
        }
        if !FINDS_PLUGINS && is_present {
            // These plugins immediately open the driver by name. Without plugins, the program's calls return errors.
            if !search_path.is_in_working_dir(DRIVER) {
                let _ = dl::open(&own);
            }
            continue;
        }
        let Some(choice) = ld_so_choice(&search_path, installation, library) else { continue };
        if is_same_file(&choice, &own) {
            continue;
        }
        // Because these libraries are large, the loader opens one early only if ld.so would choose a different file.
        if is_present && dl::open(&own).is_ok() {
            continue;
        }
        check_choice(&expected, library, choice)?;
    }
    Ok(())
}

/// Checks a file that graph would open instead of the file that the loader has checked.
fn check_choice(expected: &Installation, library: Library, choice: PathBuf) -> Result<(), LoadErrorKind> {
    let is_lacking_symbols = identify(&choice, library)
        .and_then(|_| missing_symbols(&choice, &[expected.path(Library::Graph)]))
        .map(|missing| !missing.is_empty());
    match is_lacking_symbols {
        Err(error) => Err(LoadErrorKind::Rejected { path: choice, error }),
        // ld.so cannot open this file.
        Ok(true) => Ok(()),
        Ok(false) if is_in(&choice, &expected.dir) || is_of_release(expected, library, &choice) => Ok(()),
        Ok(false) => Err(foreign(expected, choice)),
    }
}

fn foreign(installation: &Installation, path: PathBuf) -> LoadErrorKind {
    let error = ProbeError::OtherInstallation { graph: installation.dir.clone() };
    LoadErrorKind::Rejected { path, error }
}

/// Returns whether a file in another directory belongs to the same release as this installation.
fn is_of_release(expected: &Installation, library: Library, file: &Path) -> bool {
    file.parent().is_some_and(|dir| expected.matches(library, dir))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || FileIdentity::of(one).is_some_and(|identity| FileIdentity::of(other) == Some(identity))
}

/// Returns the file that ld.so would choose for graph, which tries the longest name first.
fn ld_so_choice(search_path: &SearchPath, installation: &Installation, library: Library) -> Option<PathBuf> {
    // Graph's run path contains graph's directory.
    let run_path = [installation.dir.clone()];
    library.dlopen_names(installation.version).iter().find_map(|name| search_path.resolve(name, &run_path))
}
