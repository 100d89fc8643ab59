//! Finds cuDNN in the run paths of loaded objects. A program that is linked to NVIDIA's shim would have loaded cuDNN
//! from there, but the drop-in has replaced the shim.

use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::run_path_dirs;
use cudnn_probe::{Candidate, Host, Library, Origin};

use super::objects::{LoadedObjects, RunPath};

/// The directories in run paths that contain a cuDNN.
pub(crate) struct RunPathDirs {
    /// Directories from objects that depend on the shim, where ld.so would search for it.
    pub(crate) dependents: Vec<Candidate>,
    /// Directories from other objects, which may open the shim themselves.
    pub(crate) others: Vec<Candidate>,
}

/// Returns all run path directories that contain a cuDNN, without duplicates.
pub(crate) fn dirs_with_cudnn(host: &Host, objects: &LoadedObjects) -> RunPathDirs {
    let paths = objects.run_paths(Library::Shim.file_name());
    let mut seen = Vec::new();
    let mut dirs_of = |is_dependent: bool| {
        let mut found = Vec::new();
        for RunPath { object, dirs, needs_name } in &paths {
            let program = if object.as_os_str().is_empty() { std::env::current_exe().ok() } else { None };
            let object = program.as_ref().unwrap_or(object);
            let Some(origin) = object.parent().filter(|_| *needs_name == is_dependent) else { continue };
            for dir in run_path_dirs(host, dirs, origin) {
                if seen.contains(&dir) {
                    continue;
                }
                if dir.join(Library::Graph.file_name()).symlink_metadata().is_ok() {
                    found.push(Candidate::new(dir.clone(), Origin::RunPath(object.clone())));
                }
                seen.push(dir);
            }
        }
        found
    };
    RunPathDirs { dependents: dirs_of(true), others: dirs_of(false) }
}

/// Returns the run path of a loaded library.
pub(crate) fn dirs_of(host: &Host, file: &Path) -> Vec<PathBuf> {
    let paths = LoadedObjects::snapshot().run_paths(Library::Shim.file_name());
    let path = paths.iter().find(|path| path.object == file).zip(file.parent());
    path.map(|(path, origin)| run_path_dirs(host, &path.dirs, origin)).unwrap_or_default()
}
