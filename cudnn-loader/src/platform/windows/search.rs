//! Which file a DLL gets when it opens another by name.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;
use cudnn_probe::dll_search::{Facts, Mode, Resolution, Simulation};

use super::libraries::facts;

/// A DLL does not find its plugins by name, unless the program has put their directory on a search path.
pub(crate) const FINDS_PLUGINS: bool = false;

/// The order in which Windows searches.
pub(crate) struct SearchPath(Facts);

impl SearchPath {
    pub(crate) fn new(_: &Host) -> Self {
        SearchPath(facts())
    }

    /// The file that is opened for a name. The DLL that opens it adds no directories.
    pub(crate) fn resolve(&self, name: &str, _: &[PathBuf]) -> Option<PathBuf> {
        let mut simulation = Simulation::new(self.0.clone());
        simulation.open(Path::new(name), Mode::Standard);
        match &simulation.lookups().first()?.resolution {
            Resolution::Found { path, .. } => Some(path.clone()),
            _ => None,
        }
    }
}
