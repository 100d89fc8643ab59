//! Which file a library gets when it opens another by name.

use std::path::PathBuf;

use cudnn_os::IS_WINDOWS;
use cudnn_probe::dll_search::Facts;
use cudnn_probe::{Host, ld_so};

use super::dlls;

/// A library finds its plugins beside itself, by its run path. A DLL does not find them by name, unless the program has
/// put their directory on a search path.
pub(crate) const FINDS_PLUGINS: bool = !IS_WINDOWS;

/// The order in which the system's loader searches.
pub(crate) enum SearchPath {
    LdSo(Box<ld_so::SearchPath>),
    Dlls(Box<Facts>),
}

impl SearchPath {
    pub(crate) fn new(host: &Host) -> Self {
        if IS_WINDOWS {
            SearchPath::Dlls(Box::new(dlls::facts()))
        } else {
            SearchPath::LdSo(Box::new(ld_so::SearchPath::new(host)))
        }
    }

    /// The file that is opened for a name.
    pub(crate) fn resolve(&self, name: &str, run_path: &[PathBuf]) -> Option<PathBuf> {
        match self {
            // The constant lets the compiler drop the model of the other system.
            SearchPath::Dlls(facts) if IS_WINDOWS => dlls::resolve(facts, name),
            SearchPath::LdSo(path) if !IS_WINDOWS => path.resolve(name, run_path),
            _ => None,
        }
    }

    /// Whether the file that is opened for a name is in the working directory, which ld.so does not search.
    pub(crate) fn is_in_working_dir(&self, name: &str) -> bool {
        match self {
            SearchPath::Dlls(facts) if IS_WINDOWS => dlls::is_in_working_dir(facts, name),
            _ => false,
        }
    }
}
