//! Finds complete releases in a directory by files with full names, such as `libcudnn_ops.so.9.28.1`.

use std::path::Path;

use cudnn_probe::facts::entries_named;
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Library, Version, identify_any};

use super::evidence::version_in_name;

/// Returns the releases of cuDNN 9 with all libraries in this directory under their full names, oldest first. Linux
/// only.
///
/// Archives that were unpacked over one another leave several releases, and the links lead to one of them.
pub fn complete_releases(dir: &Path) -> Vec<Version> {
    let graph = format!("{}.", Library::Graph.linux_name());
    let files = entries_named(dir, "libcudnn_graph.so.9.*", |name| name.starts_with(&graph));
    let releases = files.iter().filter_map(|file| version_in_name(file));
    let mut releases: Vec<Version> = releases.filter(|version| is_complete(dir, *version)).collect();
    releases.sort_unstable();
    releases.dedup();
    releases
}

/// Returns whether all libraries of this release are usable and have the right name.
fn is_complete(dir: &Path, version: Version) -> bool {
    let is_usable = |library: &Library| {
        let [full_name, ..] = library.dlopen_names(version);
        let identity = identify_any(&dir.join(full_name), *library);
        identity.is_ok_and(|identity| identity.version.is_none_or(|found| found == version))
    };
    Library::ALL.iter().filter(|library| has_library(version, **library)).all(is_usable)
}
