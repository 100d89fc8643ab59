//! Predicts which file a library loads when it opens another library by name.

use std::path::PathBuf;

use cudnn_os::IS_WINDOWS;
use cudnn_probe::dll_search::ProcessFacts;
use cudnn_probe::{Host, ld_so};

use super::dlls;

/// On Linux, a library finds plugins in its own directory through the run path. On Windows, the program must first add
/// that directory to a search path.
pub(crate) const FINDS_PLUGINS: bool = !IS_WINDOWS;

/// The search order of the system's loader.
pub(crate) enum SearchPath {
    LdSo(Box<ld_so::SearchPath>),
    Dlls(Box<ProcessFacts>),
}

impl SearchPath {
    pub(crate) fn new(host: &Host) -> Self {
        if IS_WINDOWS {
            SearchPath::Dlls(Box::new(dlls::facts()))
        } else {
            SearchPath::LdSo(Box::new(ld_so::SearchPath::new(host)))
        }
    }

    /// Returns the file that opening this name would load.
    pub(crate) fn resolve(&self, name: &str, run_path: &[PathBuf]) -> Option<PathBuf> {
        match self {
            // The constant lets the compiler remove the other system's model.
            SearchPath::Dlls(facts) if IS_WINDOWS => dlls::resolve(facts, name),
            SearchPath::LdSo(path) if !IS_WINDOWS => path.resolve(name, run_path),
            _ => None,
        }
    }

    /// Returns whether the name resolves to a file in the working directory. Always false with ld.so.
    pub(crate) fn is_in_working_dir(&self, name: &str) -> bool {
        match self {
            SearchPath::Dlls(facts) if IS_WINDOWS => dlls::is_in_working_dir(facts, name),
            _ => false,
        }
    }
}
