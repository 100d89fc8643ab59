//! Caches file contents for the simulated processes of a survey.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cudnn_probe::ld_so::KnownFiles;
use cudnn_probe::{Identity, Library, Version, identify_any};

use crate::files::file_name;
use crate::library_names::{CudnnName, cudnn_library};

const MAX_FILES: usize = 1 << 12;

/// Clones share the cache.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// The data that ld.so reads from files.
    pub(super) files: KnownFiles,
    identities: Arc<Mutex<HashMap<PathBuf, Identified>>>,
}

type Identified = Result<Arc<Identity>, String>;

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl Known {
    /// Returns the identity of a cuDNN 9 file, or the reason why it is not this library.
    pub(super) fn identity(&self, file: &Path, library: Library) -> Identified {
        let identities = || self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = identities().get(file) {
            return known.clone();
        }
        let found = identify_any(file, library).map(Arc::new).map_err(|error| error.to_string());
        let mut identities = identities();
        if identities.len() < MAX_FILES {
            identities.insert(file.to_owned(), found.clone());
        }
        found
    }

    /// Returns the release of a cuDNN file from the name or contents. For the shim, this is the release of graph next
    /// to it.
    pub(super) fn release(&self, file: &Path) -> Option<Version> {
        let name = file_name(file);
        if let Some(version) = CudnnName::parse(name).and_then(|name| name.version) {
            return Some(version);
        }
        if name.starts_with("libcudnn.so.8") {
            // A link leads to the file with the full version.
            return CudnnName::parse(file_name(&self.files.canonical(file)?))?.version;
        }
        match cudnn_library(name)? {
            Library::Shim if name.ends_with(".dll") => {
                self.release(&file.with_file_name(Library::Graph.windows_name()))
            }
            Library::Shim => self.release(&file.with_file_name(Library::Graph.linux_name())),
            library => self.identity(file, library).ok()?.version,
        }
    }
}
