//! Which file a DLL gets when it opens another by name.

use std::path::{Path, PathBuf};

use cudnn_probe::Host;
use cudnn_probe::dll_search::{Facts, Mode, Resolution, Rule, Simulation};

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
        match &self.open(name).lookups().first()?.resolution {
            Resolution::Found { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    #[inline(never)]
    fn open(&self, name: &str) -> Simulation {
        let mut simulation = Simulation::new(self.0.clone());
        simulation.open(Path::new(name), Mode::Standard);
        simulation
    }
}

/// Whether the file that a DLL gets for a name is in the working directory, which anybody may have filled.
pub(crate) fn is_in_working_dir(search_path: &SearchPath, name: &str) -> bool {
    let simulation = search_path.open(name);
    let rule = simulation.lookups().first().and_then(|lookup| match lookup.resolution {
        Resolution::Found { rule, .. } | Resolution::Unusable { rule, .. } => Some(rule),
        _ => None,
    });
    rule == Some(Rule::WorkingDir)
}
