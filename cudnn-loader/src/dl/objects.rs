//! Reads the list of loaded objects and their dependencies.

use std::cell::OnceCell;
use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};

use cudnn_os::libraries::{Library as Handle, pin};
use cudnn_os::objects::{self, ObjectEntry, absolute, read_list};

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

/// The loaded objects, in loading order. The list is read when it is first needed, and again after this thread has
/// loaded a library.
pub(crate) struct LoadedObjects(OnceCell<(u64, Vec<ObjectEntry>)>);

impl LoadedObjects {
    /// Creates a list that has not been read yet.
    pub(crate) fn snapshot() -> LoadedObjects {
        LoadedObjects(OnceCell::new())
    }

    /// Makes the next use read the list again.
    pub(super) fn forget(&mut self) {
        self.0.take();
    }

    /// Makes the next use read the list again if a library was loaded since it was read.
    pub(crate) fn refresh(&mut self) {
        if self.0.get().is_some_and(|(count, _)| *count != load_count()) {
            self.forget();
        }
    }

    pub(super) fn entries(&self) -> &[ObjectEntry] {
        let read = || {
            let count = load_count();
            let _guard = ForkGuard::new();
            (count, read_list())
        };
        &self.0.get_or_init(read).1
    }

    /// Returns the first loaded library of this name, which the caller knows to stay loaded.
    pub(crate) fn first(&self, name: &str) -> Option<LoadedObject> {
        let listed = self.entries().iter().find(|entry| entry.has_name(name))?;
        Some(LoadedObject { handle: listed.library(), path: absolute(listed.path.clone()) })
    }

    /// Returns the loaded library that opening this name would return, and keeps it loaded.
    pub(crate) fn find(&self, name: &str) -> Option<LoadedObject> {
        // Check the list first, because opening an unloaded library by name would search hundreds of directories.
        let listed = self.entries().iter().find(|entry| entry.has_name(name))?;
        Some(LoadedObject { handle: pinned(listed, name.as_ref())?, path: absolute(listed.path.clone()) })
    }

    /// Returns whether a library of this name is loaded.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.entries().iter().any(|entry| entry.has_name(name))
    }

    /// Returns the file of NVIDIA's shim, if the process has loaded it. Recognizes it by name and excludes the drop-in.
    pub(crate) fn nvidia_shim(&self, name: &str) -> Option<PathBuf> {
        let is_nvidias = |entry: &&ObjectEntry| {
            // Possibly a different copy of the drop-in.
            let exports = |library: Handle| library.symbol(c"cudnnShimGetVersion").is_some();
            let is_drop_in = || pinned(entry, &entry.path).is_none_or(exports);
            entry.has_name(name) && !contains_this_code(entry) && !is_drop_in()
        };
        self.entries().iter().find(is_nvidias).map(|entry| absolute(entry.path.clone()))
    }

    /// Returns the file of the shared library that contains this code, or `None` if it is part of the main program.
    pub(crate) fn containing_library(&self) -> Option<PathBuf> {
        let listed = self.entries().iter().find(|entry| contains_this_code(entry))?;
        (!listed.is_program()).then(|| absolute(listed.path.clone()))
    }

    /// Returns whether the list contains the program itself.
    pub(crate) fn contains_program(&self) -> bool {
        self.entries().iter().any(ObjectEntry::is_program)
    }

    /// Returns whether a loaded object lists this name as a dependency (`DT_NEEDED`).
    pub(crate) fn any_needs(&self, name: &str) -> bool {
        self.entries().iter().any(|entry| entry.needs(name))
    }

    /// Returns the run paths of all loaded objects.
    pub(crate) fn run_paths(&self, name: &str) -> Vec<RunPath> {
        let run_path = |entry: &ObjectEntry| {
            let needs_name = entry.needs(name);
            Some(RunPath { dirs: entry.run_path.clone()?, object: entry.path.clone(), needs_name })
        };
        self.entries().iter().filter_map(run_path).collect()
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

/// Prevents ld.so from unloading a listed library, which ld.so finds under this name. Returns `None` if it is no longer
/// loaded.
fn pinned(listed: &ObjectEntry, name: &Path) -> Option<Handle> {
    let is_same = |entry: &&ObjectEntry| entry.library() == listed.library() && entry.path == listed.path;
    if !pin(name) {
        return None;
    }
    let _guard = ForkGuard::new();
    read_list().iter().find(is_same).map(ObjectEntry::library)
}

fn contains_this_code(entry: &ObjectEntry) -> bool {
    entry.contains(contains_this_code as *const c_void)
}
