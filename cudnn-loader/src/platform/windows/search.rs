//! Which file a DLL gets when it opens another by name.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;

/// A DLL does not find its plugins by name, unless the program has put their directory on a search path.
pub(crate) const FINDS_PLUGINS: bool = false;

/// The order in which Windows searches.
pub(crate) struct SearchPath(());

impl SearchPath {
    pub(crate) fn new(_: &Host) -> Self {
        SearchPath(())
    }

    /// The file that is opened for a name.
    pub(crate) fn resolve(&self, name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
        dirs.iter().map(|dir| Path::new(dir).join(name)).find(|file| file.is_file())
    }
}
