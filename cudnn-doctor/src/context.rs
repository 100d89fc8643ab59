//! The context of every command: the host, and the search for cuDNN on it. `main` makes it once.

use std::path::PathBuf;

use cudnn_probe::{Host, Installation, Installed, Requirements, Search, Selection, inventory, select};

/// The host and the search. The search does not look beside the doctor's executable, because programs would not.
pub(crate) struct Context {
    pub(crate) host: Host,
    pub(crate) search: Search,
}

impl Context {
    /// This process's environment and file system.
    pub(crate) fn new() -> Self {
        let host = Host::current().without_executable();
        Context { search: Search::new(host.clone()), host }
    }

    /// The installation that meets the requirements, and the candidates before it that do not.
    pub(crate) fn select(&self, requirements: &Requirements) -> Selection {
        select(&self.search, requirements)
    }

    /// The installation that the loader would use.
    pub(crate) fn selected(&self) -> Option<Installation> {
        self.select(&Requirements::default()).installation
    }

    /// Every installation that the search finds, and those under these roots.
    pub(crate) fn inventory(&self, roots: &[PathBuf]) -> Vec<Installed> {
        inventory(&self.search, &self.host, roots)
    }
}
