//! What one survey knows of the files that its simulated processes open: each is read once, whichever process opens it.
//! The survey and its pairs share the value, and nothing outlives them. Knows no frameworks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cudnn_probe::ld_so::KnownFiles;
use cudnn_probe::{Identity, Library, Version, identify_any};

use crate::cudnn_name::CudnnName;
use crate::drop_in;

/// The most files that are remembered of each kind: those of cuDNN that an environment's search paths lead to.
const MAX_FILES: usize = 1 << 12;

/// A clone is the same value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// What ld.so reads of the files.
    pub(crate) files: KnownFiles,
    identities: Memory<Result<Arc<Identity>, String>>,
    drop_ins: Memory<bool>,
}

impl Known {
    /// What a file states as this library of cuDNN 9, or the reason why it is not that library.
    pub(crate) fn identity(&self, file: &Path, library: Library) -> Result<Arc<Identity>, String> {
        let identify = || identify_any(file, library).map(Arc::new).map_err(|error| error.to_string());
        self.identities.value(file, identify)
    }

    /// See [`is_drop_in`](drop_in::is_drop_in).
    pub(crate) fn is_drop_in(&self, file: &Path) -> bool {
        self.drop_ins.value(file, || drop_in::is_drop_in(file))
    }

    /// The release of a file of cuDNN, by its name or its contents.
    pub(crate) fn release(&self, file: &Path) -> Option<Version> {
        let name = file.file_name()?.to_str()?;
        if let Some(version) = CudnnName::parse(name).and_then(|name| name.version) {
            return Some(version);
        }
        if name.starts_with("libcudnn.so.8") {
            // A link to the file with the full version.
            let target = self.files.canonical(file)?;
            return CudnnName::parse(target.file_name()?.to_str()?)?.version;
        }
        let library = library_of(name)?;
        let file = if library == Library::Shim { &file.with_file_name(Library::Graph.file_name()) } else { file };
        let library = if library == Library::Shim { Library::Graph } else { library };
        self.identity(file, library).ok()?.version
    }
}

/// The library of cuDNN 9 with this file name, which may end in the full version.
pub(crate) fn library_of(name: &str) -> Option<Library> {
    let (stem, _) = name.split_once(".so.9")?;
    Library::from_file_name(&format!("{stem}.so.9"))
}

/// One fact of each file.
#[derive(Debug)]
struct Memory<T>(Arc<Mutex<HashMap<PathBuf, T>>>);

impl<T: Clone> Memory<T> {
    fn value(&self, file: &Path, find: impl FnOnce() -> T) -> T {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(file) {
            return known.clone();
        }
        let found = find();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_FILES {
            all.insert(file.to_owned(), found.clone());
        }
        found
    }
}

impl<T> Clone for Memory<T> {
    fn clone(&self) -> Self {
        Memory(self.0.clone())
    }
}

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Memory(Arc::default())
    }
}
