//! Reads the list of loaded objects and their dependencies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::libraries::exports;
use cudnn_os::objects::{self, Entry, absolute, containing_base, read_list};

use super::Handle;
use crate::thread::fork::ForkGuard;

/// A library that is loaded in this process, regardless of who loaded it.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    pub(crate) handle: Handle,
    /// The absolute path of the file, as the system's loader found it.
    pub(crate) path: PathBuf,
}

/// Returns a number that changes when the process loads a library.
pub(crate) fn load_count() -> u64 {
    let _guard = ForkGuard::new();
    objects::load_count()
}

/// A snapshot of the loaded objects, in loading order.
pub(crate) struct LoadedObjects(Vec<Entry>);

impl LoadedObjects {
    /// Reads the list now.
    pub(crate) fn snapshot() -> LoadedObjects {
        let _guard = ForkGuard::new();
        LoadedObjects(read_list())
    }

    /// Returns the loaded library that opening this name would return.
    pub(crate) fn find(&self, name: &str) -> Option<LoadedObject> {
        // Check the list first, because opening an unloaded library by name would search hundreds of directories.
        let listed = self.0.iter().find(|entry| entry.has_name(name))?;
        Some(LoadedObject { handle: Handle::loaded(name.as_ref())?, path: absolute(listed.path.clone()) })
    }

    /// Returns whether a library of this name is loaded.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|entry| entry.has_name(name))
    }

    /// Returns the file of NVIDIA's shim, if the process has loaded it. Recognizes it by name and excludes the drop-in.
    pub(crate) fn nvidia_shim(&self, name: &str) -> Option<PathBuf> {
        let containing = containing_base();
        let is_nvidias =
            |entry: &&Entry| entry.has_name(name) && Some(entry.base) != containing && !is_drop_in(&entry.path);
        self.0.iter().find(is_nvidias).map(|entry| absolute(entry.path.clone()))
    }

    /// Returns the file of the shared library that contains this code, or `None` if it is part of the main program.
    pub(crate) fn containing_library(&self) -> Option<PathBuf> {
        let containing = containing_base()?;
        let listed = self.0.iter().find(|entry| entry.base == containing)?;
        (!listed.is_program()).then(|| absolute(listed.path.clone()))
    }

    /// Returns whether a loaded object lists this name as a dependency (`DT_NEEDED`).
    pub(crate) fn any_needs(&self, name: &str) -> bool {
        self.0.iter().any(|entry| entry.needs(name))
    }

    /// Returns the run paths of all loaded objects.
    pub(crate) fn run_paths(self, name: &str) -> Vec<RunPath> {
        let run_path = |entry: Entry| {
            let needs_name = entry.needs(name);
            Some(RunPath { dirs: entry.run_path?, object: entry.path, needs_name })
        };
        self.0.into_iter().filter_map(run_path).collect()
    }
}

/// The directories that a loaded object adds to ld.so's search: `DT_RUNPATH` or `DT_RPATH`.
#[derive(Debug)]
pub(crate) struct RunPath {
    /// The object's file; empty for the main program.
    pub(crate) object: PathBuf,
    /// The unexpanded text: colon-separated directories with tokens such as `$ORIGIN`.
    pub(crate) dirs: OsString,
    /// Whether the object depends on the name that the caller passed.
    pub(crate) needs_name: bool,
}

/// Returns whether a loaded library is the drop-in, possibly a different copy.
fn is_drop_in(path: &Path) -> bool {
    exports(path, c"cudnnShimGetVersion")
}
