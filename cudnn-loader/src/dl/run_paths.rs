//! The directories with a cuDNN in the run paths of loaded objects. A program that is linked to NVIDIA's shim would
//! have loaded that cuDNN, but the drop-in has replaced the shim.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::run_path_dirs;
use cudnn_probe::{Host, Library};

use super::objects::{LoadedObjects, RunPath};

/// Each run path directory that contains a cuDNN, with the object that names it. Objects that depend on the shim come
/// first.
pub(crate) fn dirs_with_cudnn(host: &Host, objects: LoadedObjects) -> Vec<(PathBuf, PathBuf)> {
    let paths = objects.run_paths(Library::Shim.file_name());
    let (dependents, others): (Vec<RunPath>, Vec<RunPath>) = paths.into_iter().partition(|path| path.needs_soname);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for RunPath { object, dirs, .. } in dependents.into_iter().chain(others) {
        let object = if object.as_os_str().is_empty() { std::env::current_exe().unwrap_or_default() } else { object };
        let Some(origin) = object.parent() else { continue };
        for dir in run_path_dirs(host, OsStr::from_bytes(&dirs), origin) {
            if seen.contains(&dir) {
                continue;
            }
            if dir.join(Library::Graph.file_name()).symlink_metadata().is_ok() {
                found.push((dir.clone(), object.clone()));
            }
            seen.push(dir);
        }
    }
    found
}

/// The run path of one loaded library.
pub(crate) fn dirs_of(host: &Host, file: &Path) -> Vec<PathBuf> {
    let paths = LoadedObjects::snapshot().run_paths(Library::Shim.file_name());
    let path = paths.iter().find(|path| path.object == file).zip(file.parent());
    path.map(|(path, origin)| run_path_dirs(host, OsStr::from_bytes(&path.dirs), origin)).unwrap_or_default()
}
