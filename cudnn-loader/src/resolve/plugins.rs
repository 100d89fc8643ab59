//! Checks the libraries that `libcudnn_graph.so.9` opens itself when it first creates a plan: heuristics and engines.
//!
//! Graph tries four names for each plugin, and relies on its run path, which ld.so ignores if another library replaces
//! `dlopen`. The loader therefore opens the plugins of the installation first, by absolute path, and graph finds them
//! under the short name. This file decides what happens if a plugin cannot be opened, because ld.so may then give graph
//! the plugin of a different installation.

use std::path::{Path, PathBuf};

use cudnn_probe::{FileIdentity, Host, Installation, Library, ProbeError, identify, missing_symbols};

use super::installation::is_in;
use crate::dl::search_path::{FINDS_PLUGINS, SearchPath};
use crate::error::LoadErrorKind;
use crate::names::DRIVER;

/// Returns whether graph opens this library itself.
pub(super) fn is_plugin(library: Library) -> bool {
    Library::OPENED_BY_GRAPH.contains(&library)
}

/// Checks a plugin that the process has already loaded from another directory.
///
/// # Errors
/// Returns an error if it belongs to a different release or CUDA major version.
pub(super) fn check_loaded(expected: &Installation, library: Library, path: &Path) -> Result<(), LoadErrorKind> {
    if has_same_release(expected, library, path) { Ok(()) } else { Err(foreign(expected, path.to_owned())) }
}

/// Returns the reason why a plugin must not be opened. On Windows, plugins open the driver by name immediately, and the
/// working directory may contain a file of that name, from any user.
pub(super) fn reason_to_skip(library: Library) -> Option<String> {
    let is_unsafe = !FINDS_PLUGINS && is_plugin(library) && SearchPath::new(&Host::current()).is_in_working_dir(DRIVER);
    is_unsafe.then(|| format!("it would load {DRIVER} from the working directory"))
}

/// Checks the file that graph would open instead of a plugin that is missing or cannot be opened.
///
/// # Errors
/// Returns an error if that file can be opened, but is damaged or belongs to a different installation and release.
pub(super) fn check_alternative(expected: &Installation, library: Library) -> Result<(), LoadErrorKind> {
    let search_path = SearchPath::new(&Host::current());
    // Graph's run path contains graph's directory.
    let run_path = [expected.dir.clone()];
    let names = library.dlopen_names(expected.version);
    let choice = names.iter().find_map(|name| search_path.resolve(name, &run_path));
    let Some(choice) = choice.filter(|choice| !is_same_file(choice, &expected.path(library))) else { return Ok(()) };
    let is_lacking_symbols = identify(&choice, library)
        .and_then(|_| missing_symbols(&choice, &[expected.path(Library::Graph)]))
        .map(|missing| !missing.is_empty());
    match is_lacking_symbols {
        Err(error) => Err(LoadErrorKind::Rejected { path: choice, error }),
        // ld.so cannot open this file.
        Ok(true) => Ok(()),
        Ok(false) if is_in(&choice, &expected.dir) || has_same_release(expected, library, &choice) => Ok(()),
        Ok(false) => Err(foreign(expected, choice)),
    }
}

fn foreign(expected: &Installation, path: PathBuf) -> LoadErrorKind {
    LoadErrorKind::Rejected { path, error: ProbeError::OtherInstallation { graph: expected.dir.clone() } }
}

/// Returns whether a file in another directory belongs to the same release as this installation.
fn has_same_release(expected: &Installation, library: Library, file: &Path) -> bool {
    file.parent().is_some_and(|dir| expected.matches(library, dir))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || FileIdentity::of(one).is_some_and(|identity| FileIdentity::of(other) == Some(identity))
}
