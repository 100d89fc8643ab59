//! Searches directories for cuDNN in a fixed order.

use std::path::PathBuf;

use crate::host::Host;
use crate::platform::Os;

use super::given::{Given, Stage};
use super::linux;
use super::origin::Candidate;
#[cfg(feature = "windows")]
use super::windows;

/// A search for cuDNN. The order of the directories is fixed, see [`Origin`](super::Origin).
///
/// ```
/// use cudnn_probe::{Host, Search};
/// let search = Search::new(Host::current()).add_adjacent("/opt/app/plugins");
/// for candidate in search.candidates() {
///     println!("{} ({})", candidate.dir.display(), candidate.origin);
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Search {
    given: Given,
}

impl Search {
    /// Creates the complete search for this host.
    pub fn new(host: Host) -> Self {
        Search { given: Given::new(host) }
    }

    /// Returns the host to search.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.given.host
    }

    /// Limits the search to this directory, or to the directory of this file.
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.given.explicit = Some(path.into());
        self
    }

    /// Adds a directory from which this process has already loaded a cuDNN library. Only an explicit directory takes
    /// precedence over it.
    pub fn add_loaded(mut self, dir: impl Into<PathBuf>) -> Self {
        self.given.loaded.push(dir.into());
        self
    }

    /// Adds the directory of the library that runs this search, such as the drop-in library. It comes before the
    /// directory of the executable.
    pub fn add_adjacent(mut self, dir: impl Into<PathBuf>) -> Self {
        self.given.adjacent.push(dir.into());
        self
    }

    /// Adds run path directories (DT_RPATH or DT_RUNPATH) of the program and the loaded libraries. Directories from
    /// files that depend on the cuDNN shim come after the directory of the executable. Directories from other files,
    /// which may open the shim, come after `LD_LIBRARY_PATH`.
    pub fn run_paths(mut self, of_dependents: Vec<Candidate>, of_others: Vec<Candidate>) -> Self {
        self.given.run_paths = of_dependents;
        self.given.other_run_paths = of_others;
        self
    }

    /// Replaces the environment variable [`DIR_VARIABLE`](crate::DIR_VARIABLE).
    pub fn variable(mut self, name: &'static str) -> Self {
        self.given.variable = name;
        self
    }

    /// Returns the directory that the program or the environment variable requests, if any.
    #[must_use]
    pub fn explicit_candidate(&self) -> Option<Candidate> {
        self.given.explicit_candidate()
    }

    /// Returns the directories in order. A directory may occur more than once for different reasons.
    ///
    /// An explicit directory disables the rest of the search. If it cannot be used, the result is an error instead of
    /// another installation.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.in_stages(self.stages())
    }

    /// Returns the rules of this search. Each rule yields directories, and is evaluated only if the earlier rules found
    /// no usable one.
    pub(crate) fn stages(&self) -> &'static [Stage] {
        if self.given.explicit_candidate().is_some() { &[Given::explicit_dir] } else { STAGES }
    }

    /// Returns the input of the rules.
    pub(crate) fn given(&self) -> &Given {
        &self.given
    }

    /// Returns the directories in order, ignoring an explicit directory.
    pub fn default_candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.in_stages(STAGES)
    }

    /// Evaluates the stages lazily, each only after the earlier ones found no usable directory.
    fn in_stages<'a>(&'a self, stages: &'static [Stage]) -> impl Iterator<Item = Candidate> + 'a {
        stages.iter().flat_map(|stage| stage(&self.given))
    }
}

/// The rules of the search on this system, in order.
const STAGES: &[Stage] = match Os::HOST {
    Os::Linux => linux::STAGES,
    #[cfg(feature = "windows")]
    Os::Windows => windows::STAGES,
    #[cfg(not(feature = "windows"))]
    Os::Windows => &[],
};
