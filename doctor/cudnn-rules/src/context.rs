//! Provides the context of a command, which `main` creates once.

use cudnn_cli::path::path_dirs;
use cudnn_frameworks::installation::{Installed, inventory_with};
use cudnn_frameworks::{Depth, Environment, Survey, survey_to};
use cudnn_probe::facts::{self, PathFacts};
use cudnn_probe::ld_so::{KnownFiles, Simulation};
use cudnn_probe::{Candidate, Host, Installation, Origin, ProbeError, Requirements, Search, Selection, select};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::cudnn_file::is_drop_in;
use crate::lost_environment::LostEnvironment;
use crate::packages::python_shim::{self, PythonShim};
use crate::python::{Python, inactive_environment};

/// The host and the search for cuDNN. Like other programs, the search ignores the directory of the doctor's executable.
#[derive(Clone)]
pub struct Context {
    /// The system as the programs in question see it.
    pub host: Host,
    /// The search for cuDNN on this host.
    pub search: Search,
    pub(crate) files: KnownFiles,
    /// The first `python3` on `PATH`, if it is a script from a version manager.
    pub(crate) python_shim: Option<PythonShim>,
    /// The Python that the command names or runs, if any.
    pub(crate) python: Option<Python>,
    pub(crate) is_python_named: bool,
    /// The environment that a variable named before this context selected another one.
    lost: Option<LostEnvironment>,
    surveys: Surveys,
}

impl Context {
    /// Captures this process's environment and file system, as a Python program sees them. pyenv and asdf put the
    /// directory of the selected Python first on `PATH`.
    pub fn current() -> Self {
        let python_shim = python_shim::find(path_dirs());
        let host = Host::current().without_executable();
        let host = match python_shim.as_ref().and_then(|shim| shim.bin.as_deref()) {
            Some(bin) => with_first_on_path(host, bin),
            None => host,
        };
        Context { python_shim, ..Context::from_host(host) }
    }

    /// Returns a context for this host without a named Python.
    pub fn from_host(host: Host) -> Self {
        Context {
            search: Search::new(host.clone()),
            host,
            files: KnownFiles::new(),
            python_shim: None,
            python: None,
            is_python_named: false,
            lost: None,
            surveys: Surveys::default(),
        }
    }

    /// Returns this context as seen by programs of a Python, as if its environment were active.
    pub fn with_python(&self, python: Python, is_python_named: bool) -> Context {
        let environments = self.search.environments();
        if environments.iter().find_map(Origin::root) == Some(&python.root) {
            return Context { python: Some(python), is_python_named, ..self.clone() };
        }
        let root = |is_active: bool| if is_active { python.root.clone().into() } else { OsString::new() };
        let host = with_first_on_path(self.host.clone(), &python.root.join("bin"))
            .env("VIRTUAL_ENV", root(python.is_virtual))
            .env("CONDA_PREFIX", root(python.root.join("conda-meta").leads_to_dir()));
        let (files, lost) = (self.files.clone(), self.lost_environment());
        Context { files, python: Some(python), is_python_named, lost, ..Context::from_host(host) }
    }

    /// Returns this context as a new command would create it.
    pub fn again(&self) -> Context {
        let again = if self.host.uses_process_environment() {
            Context::current()
        } else {
            Context::from_host(self.host.clone())
        };
        match &self.python {
            Some(python) => again.with_python(python.clone(), self.is_python_named),
            None => again,
        }
    }

    /// Returns the virtual environment of the working directory, if no environment is active or named.
    pub fn inactive_environment(&self) -> Option<PathBuf> {
        if self.is_python_named { None } else { inactive_environment(&self.search) }
    }

    /// Returns the unusable environment that a variable names, unless the command names a Python. Packages must not be
    /// installed for another Python instead.
    pub(crate) fn lost_environment(&self) -> Option<LostEnvironment> {
        let active = || LostEnvironment::active(&self.host);
        if self.is_python_named { None } else { self.lost.clone().or_else(active) }
    }

    /// Returns the version manager that starts programs of the environment containing this directory, if `PATH` does
    /// not lead there.
    pub fn starter_of(&self, dir: &Path) -> Option<&'static str> {
        let shim = self.python_shim.as_ref()?;
        let root = cudnn_probe::canonicalize(shim.bin.as_deref()?.parent()?).ok()?;
        dir.starts_with(root).then_some(shim.tool)
    }

    /// Simulates how the loader starts a program or library on this host.
    ///
    /// # Errors
    /// Loading the file itself fails.
    pub fn simulation(&self, file: &Path) -> Result<Simulation, ProbeError> {
        Simulation::with_files(file, &self.host, &self.files)
    }

    pub(crate) fn survey(&self, environment: &Environment, depth: Depth) -> Arc<Survey> {
        self.surveys.of(environment, &self.host, depth)
    }

    /// Returns the installation that meets the requirements, together with the rejected candidates before it.
    pub fn select(&self, requirements: &Requirements) -> Selection {
        select(&self.search, requirements)
    }

    /// Returns the installation that the loader would use.
    pub fn selected(&self) -> Option<Installation> {
        self.select(&Requirements::default()).installation
    }

    /// Returns the installation that this drop-in file would use. The drop-in searches the directory of the file first,
    /// but a run path in the program may select another installation.
    pub fn selected_by_drop_in(&self, drop_in: &Path) -> Option<Installation> {
        let search = self.search.clone().add_adjacent(drop_in.parent()?);
        select(&search, &Requirements::default()).installation
    }

    /// Returns all installations found by the search.
    pub fn inventory(&self) -> Vec<Installed> {
        self.inventory_with(Vec::new())
    }

    /// Returns all installations found by the search or in these directories, without directories that only contain the
    /// drop-in.
    pub fn inventory_with(&self, further: Vec<Candidate>) -> Vec<Installed> {
        let mut all = inventory_with(&self.search, &self.host, further);
        all.retain(|installed| {
            let libraries = &installed.report.libraries;
            libraries.is_empty() || !libraries.iter().all(|part| is_drop_in(&part.path))
        });
        all
    }
}

fn with_first_on_path(host: Host, bin: &Path) -> Host {
    let path = facts::variable("PATH").unwrap_or_default();
    let dirs = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
    let Ok(path) = std::env::join_paths(dirs) else { return host };
    host.env("PATH", path)
}

/// The depth of a survey that only finds the frameworks.
pub(crate) const MINIMAL_DEPTH: Depth = Depth { kernels: false, unlisted: false, metadata: false };

#[derive(Clone, Default)]
pub(crate) struct Surveys(Rc<RefCell<Vec<Made>>>);

struct Made {
    read: Depth,
    survey: Arc<Survey>,
}

impl Surveys {
    /// Returns a cached survey of at least this depth, or makes a new one.
    pub(crate) fn of(&self, environment: &Environment, host: &Host, depth: Depth) -> Arc<Survey> {
        let is_it = |Made { read, survey }: &&Made| {
            let has_read =
                read.kernels >= depth.kernels && read.unlisted >= depth.unlisted && read.metadata >= depth.metadata;
            has_read && survey.environment == *environment
        };
        if let Some(made) = self.0.borrow().iter().find(is_it) {
            return made.survey.clone();
        }
        let survey = Arc::new(survey_to(environment, host, depth));
        self.0.borrow_mut().push(Made { read: depth, survey: survey.clone() });
        survey
    }
}
