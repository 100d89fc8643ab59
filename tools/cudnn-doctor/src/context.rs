//! Provides the context of a command: the host with the search for cuDNN on it. `main` creates it once.

use cudnn_probe::facts::{self, PathFacts};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudnn_frameworks::installation::{Installed, inventory_with};
use cudnn_frameworks::{Depth, Environment, Survey};
use cudnn_probe::ld_so::{KnownFiles, Simulation};
use cudnn_probe::{Candidate, Host, Installation, Origin, ProbeError, Requirements, Search, Selection, select};

use crate::cudnn_file::is_drop_in;
use crate::python::{Python, inactive_environment};
use crate::python_shim::{self, PythonShim, ShimEnvironment};
use crate::surveys::Surveys;

/// The host and the search. The search does not look beside the doctor's executable, because programs would not.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) host: Host,
    pub(crate) search: Search,
    /// What the simulations of one command have read.
    pub(crate) files: KnownFiles,
    /// The first `python3` on `PATH`, if a tool has put a script in its place.
    pub(crate) python_shim: Option<PythonShim>,
    /// The Python whose environment this is about, if the command names or runs one.
    pub(crate) python: Option<Python>,
    /// The command names that Python.
    pub(crate) is_python_named: bool,
    surveys: Surveys,
}

impl Context {
    /// This process's environment and file system, as a Python program sees them: pyenv and asdf put the directory of
    /// the Python that they start first on `PATH`.
    pub(crate) fn new() -> Self {
        let environment =
            ShimEnvironment { variable: &|name| facts::variable(name), working_dir: facts::current_dir().ok() };
        let python_shim = python_shim::find(&environment);
        let host = Host::current().without_executable();
        let host = match python_shim.as_ref().and_then(|shim| shim.bin.as_deref()) {
            Some(bin) => with_first_on_path(host, bin),
            None => host,
        };
        Context { python_shim, ..Context::of_host(host) }
    }

    /// The context of a command on this host, which names no Python.
    pub(crate) fn of_host(host: Host) -> Self {
        Context {
            search: Search::new(host.clone()),
            host,
            files: KnownFiles::new(),
            python_shim: None,
            python: None,
            is_python_named: false,
            surveys: Surveys::default(),
        }
    }

    /// This context as the programs of a Python see it, which the command names or runs: as if its environment were the
    /// active one.
    pub(crate) fn of_python(&self, python: Python, is_python_named: bool) -> Context {
        let environments = self.search.environments();
        if environments.iter().find_map(Origin::root) == Some(&python.root) {
            return Context { python: Some(python), is_python_named, ..self.clone() };
        }
        let root = |is_active: bool| if is_active { python.root.clone().into() } else { OsString::new() };
        let host = with_first_on_path(self.host.clone(), &python.root.join("bin"))
            .with_variable("VIRTUAL_ENV", root(python.is_virtual))
            .with_variable("CONDA_PREFIX", root(python.root.join("conda-meta").leads_to_dir()));
        Context { files: self.files.clone(), python: Some(python), is_python_named, ..Context::of_host(host) }
    }

    /// The virtual environment of the working directory, if no environment is active and the command names none.
    pub(crate) fn inactive_environment(&self) -> Option<PathBuf> {
        if self.is_python_named { None } else { inactive_environment(&self.search) }
    }

    /// The tool that starts programs of the Python environment with this directory in it, if `PATH` does not lead there.
    pub(crate) fn starter_of(&self, dir: &Path) -> Option<&'static str> {
        let shim = self.python_shim.as_ref()?;
        let root = cudnn_probe::canonicalize(shim.bin.as_deref()?.parent()?).ok()?;
        dir.starts_with(root).then_some(shim.tool)
    }

    /// Simulates the start of a program or library on this host.
    ///
    /// # Errors
    /// The file itself cannot be loaded.
    pub(crate) fn simulation(&self, file: &Path) -> Result<Simulation, ProbeError> {
        Simulation::with_files(file, &self.host, &self.files)
    }

    /// The survey of an environment, as a Python that is started on this host sees it.
    pub(crate) fn survey(&self, environment: &Environment, depth: Depth) -> Arc<Survey> {
        self.surveys.of(environment, &self.host, depth)
    }

    /// The installation that meets the requirements, and the candidates before it that do not.
    pub(crate) fn select(&self, requirements: &Requirements) -> Selection {
        select(&self.search, requirements)
    }

    /// The installation that the loader would use.
    pub(crate) fn selected(&self) -> Option<Installation> {
        self.select(&Requirements::default()).installation
    }

    /// The installation that the drop-in in this file would use: it searches its own directory first. A run path in the
    /// program may lead it to another one.
    pub(crate) fn selected_by_drop_in(&self, drop_in: &Path) -> Option<Installation> {
        let search = self.search.clone().add_adjacent(drop_in.parent()?);
        select(&search, &Requirements::default()).installation
    }

    /// Every installation that the search finds.
    pub(crate) fn inventory(&self) -> Vec<Installed> {
        self.inventory_with(Vec::new())
    }

    /// Every installation that the search finds, and those in these directories. A directory with only the drop-in is none.
    pub(crate) fn inventory_with(&self, further: Vec<Candidate>) -> Vec<Installed> {
        let mut all = inventory_with(&self.search, &self.host, further);
        all.retain(|installed| {
            let libraries = &installed.report.libraries;
            libraries.is_empty() || !libraries.iter().all(|part| is_drop_in(&part.path))
        });
        all
    }
}

/// The host with this directory first on `PATH`, and all other variables of this process.
fn with_first_on_path(host: Host, bin: &Path) -> Host {
    let path = facts::variable("PATH").unwrap_or_default();
    let dirs = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
    let Ok(path) = std::env::join_paths(dirs) else { return host };
    host.with_variable("PATH", path)
}
