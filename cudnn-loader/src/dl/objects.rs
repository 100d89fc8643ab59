//! The list of loaded objects, read once, with the names in each.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cudnn_os::libraries::exports;
use cudnn_os::objects::{self, Entry, absolute, containing_base, read_list};

use super::Handle;
use crate::thread::fork::NotBesideFork;

/// A library that the process has loaded, no matter who loaded it.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    pub(crate) handle: Handle,
    /// The file, as the system's loader found it; absolute.
    pub(crate) path: PathBuf,
}

/// A number that changes when the process loads something.
pub(crate) fn load_count() -> u64 {
    let _guard = NotBesideFork::new();
    objects::load_count()
}

/// A snapshot of the list, in loading order.
pub(crate) struct LoadedObjects(Vec<Entry>);

impl LoadedObjects {
    /// Reads the list now.
    pub(crate) fn snapshot() -> LoadedObjects {
        let _guard = NotBesideFork::new();
        LoadedObjects(read_list())
    }

    /// The loaded library of this name, which the system's loader returns to everybody who opens the name.
    pub(crate) fn find(&self, name: &str) -> Option<LoadedObject> {
        // The list comes first, because opening a name that is not loaded would search hundreds of directories.
        let listed = self.0.iter().find(|entry| entry.has_name(name))?;
        Some(LoadedObject { handle: Handle::loaded(name.as_ref())?, path: absolute(listed.path.clone()) })
    }

    /// Whether a library of this name is loaded.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|entry| entry.has_name(name))
    }

    /// The file of NVIDIA's shim, if the process has loaded it: a library with the shim's name that is not the
    /// drop-in.
    pub(crate) fn nvidia_shim(&self, name: &str) -> Option<PathBuf> {
        let containing = containing_base();
        let is_nvidias =
            |entry: &&Entry| entry.has_name(name) && Some(entry.base) != containing && !is_drop_in(&entry.path);
        self.0.iter().find(is_nvidias).map(|entry| absolute(entry.path.clone()))
    }

    /// The file of the shared library that contains this code; `None` if the program itself contains it.
    pub(crate) fn containing_library(&self) -> Option<PathBuf> {
        let containing = containing_base()?;
        let listed = self.0.iter().find(|entry| entry.base == containing)?;
        (!listed.is_program()).then(|| absolute(listed.path.clone()))
    }

    /// Whether a loaded object lists this name as a dependency (`DT_NEEDED`).
    pub(crate) fn any_needs(&self, name: &str) -> bool {
        self.0.iter().any(|entry| entry.needs(name))
    }

    /// The run paths of all loaded objects.
    pub(crate) fn run_paths(self, name: &str) -> Vec<RunPath> {
        let run_path = |entry: Entry| {
            let needs_name = entry.needs(name);
            Some(RunPath { dirs: entry.run_path?, object: entry.path, needs_name })
        };
        self.0.into_iter().filter_map(run_path).collect()
    }
}

/// The directories that a loaded object asks ld.so to search: `DT_RUNPATH`, or `DT_RPATH`.
#[derive(Debug)]
pub(crate) struct RunPath {
    /// The object's file; empty for the program itself.
    pub(crate) object: PathBuf,
    /// The unexpanded text: directories separated by colons, with tokens like `$ORIGIN`.
    pub(crate) dirs: OsString,
    /// Whether the object lists the name that the caller asked about as a dependency.
    pub(crate) needs_name: bool,
}

/// Whether this loaded library is the drop-in, perhaps another copy of it.
fn is_drop_in(path: &Path) -> bool {
    exports(path, c"cudnnShimGetVersion")
}
