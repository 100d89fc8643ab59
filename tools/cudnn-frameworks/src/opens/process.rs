//! A process of an environment's Python, simulated as ld.so runs it: what it opens, and how each file was found.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Lookup, Resolution, Rule, Simulation};
use cudnn_probe::{DIR_VARIABLE, Host};

use super::{By, Opened};
use crate::cudnn_name::CudnnName;
use crate::driver::is_of_driver;
use crate::environment::Environment;
use crate::known::Known;

/// A simulated process of the environment's Python.
#[derive(Debug)]
pub(crate) struct Process {
    pub(super) simulation: Simulation,
    pub(super) environment: Environment,
    pub(super) host: Host,
    pub(super) known: Known,
    /// The CUDA that the framework which is imported was built for.
    pub(super) cuda_major: Option<u32>,
    /// How each loaded file was found first.
    found_by: HashMap<PathBuf, By>,
    /// The lookups that were entered there.
    seen: usize,
}

impl Process {
    /// Starts the environment's Python.
    pub(crate) fn start(environment: &Environment, host: &Host, known: &Known) -> Self {
        let names = ["bin/python3", "bin/python"].map(|name| environment.root.join(name));
        let python = names.iter().find_map(|file| Simulation::with_files(file, host, &known.files).ok());
        let [first, _] = &names;
        let mut process = Process {
            // A script, or an environment without one: ld.so's rules are those of any program without a run path.
            simulation: python.unwrap_or_else(|| Simulation::without_program(first, host, &known.files)),
            environment: environment.clone(),
            host: host.clone(),
            known: known.clone(),
            cuda_major: None,
            found_by: HashMap::new(),
            seen: 0,
        };
        process.note_lookups(None);
        process
    }

    /// The same process, in which something else happens next.
    pub(crate) fn fork(&self) -> Self {
        Process {
            simulation: self.simulation.fork(),
            environment: self.environment.clone(),
            host: self.host.clone(),
            known: self.known.clone(),
            cuda_major: self.cuda_major,
            found_by: self.found_by.clone(),
            seen: 0,
        }
    }

    /// Simulates `dlopen`, on a machine with a driver: whether one is there is no question of the environment.
    pub(super) fn dlopen(&mut self, name: &str, from: usize) -> bool {
        let before = self.simulation.lookups().len();
        if self.simulation.dlopen(name, from) {
            return true;
        }
        let failed = self.simulation.lookups().get(before..).unwrap_or_default();
        let mut failed = failed.iter().filter(|lookup| !matches!(lookup.resolution, Resolution::Found { .. }));
        failed.all(|lookup| is_of_driver(&lookup.name)) && self.simulation.dlopen_incomplete(name, from).is_some()
    }

    /// The same for a file by its path.
    pub(super) fn dlopen_file(&mut self, file: &Path) -> bool {
        match file.to_str() {
            Some(name) => self.dlopen(name, 0),
            None => self.simulation.open_file(file, 0).is_some(),
        }
    }

    /// Enters how files were found, since the last time: by ld.so's rules, or in this way by Python code.
    pub(super) fn note_lookups(&mut self, by: Option<By>) {
        let new = self.simulation.lookups().get(self.seen..).unwrap_or_default();
        for lookup in new {
            let Resolution::Found { path, rule } = &lookup.resolution else { continue };
            let by = match (&by, rule) {
                (_, Rule::Loaded) => continue,
                // The libraries that it needs in turn are found by ld.so.
                (Some(by), Rule::Path) => by.clone(),
                _ => By::LdSo(rule.clone()),
            };
            self.found_by.entry(path.clone()).or_insert(by);
        }
        self.seen = self.simulation.lookups().len();
    }

    /// Leaves the lookups since the last time out: what failed stays loaded no more.
    pub(super) fn skip_lookups(&mut self) {
        self.seen = self.simulation.lookups().len();
    }

    /// The file that a name gets, and how it was found first.
    pub(super) fn opened(&self, lookup: &Lookup) -> Option<Opened> {
        let Resolution::Found { path, rule } = &lookup.resolution else { return None };
        Some(Opened {
            name: lookup.name.clone(),
            version: self.known.release(path),
            by: self.found_by.get(path).cloned().unwrap_or_else(|| By::LdSo(rule.clone())),
            path: path.clone(),
        })
    }

    /// The host as this project's loader sees it in the environment's Python.
    pub(super) fn host_of_environment(&self) -> Host {
        const VARIABLES: [&str; 10] = [
            DIR_VARIABLE,
            "LD_LIBRARY_PATH",
            "PATH",
            "HOME",
            "CUDA_HOME",
            "CUDA_PATH",
            "CUDNN_HOME",
            "CUDNN_PATH",
            "CUDNN_ROOT",
            "CONDA_PREFIX",
        ];
        let root = &self.environment.root;
        let host = self.host.clone().without_executable().with_variables(&VARIABLES);
        let host = if root.join("conda-meta").is_dir() { host.env("CONDA_PREFIX", root) } else { host };
        if root.join("pyvenv.cfg").is_file() { host.env("VIRTUAL_ENV", root) } else { host }
    }

    /// The shims of cuDNN that the process has loaded.
    pub(crate) fn shims(&self) -> impl Iterator<Item = &Path> {
        self.simulation
            .objects()
            .iter()
            .map(|object| object.path.as_path())
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_shim))
    }
}

pub(super) fn is_missing(lookup: &Lookup) -> bool {
    is_of_cuda(&lookup.name) && !is_of_driver(&lookup.name) && !matches!(lookup.resolution, Resolution::Found { .. })
}

/// Whether this is a name of one of CUDA's libraries.
pub(super) fn is_of_cuda(name: &str) -> bool {
    ["libcu", "libnv", "libnccl"].iter().any(|start| name.starts_with(start))
}

pub(super) fn is_shim(name: &str) -> bool {
    CudnnName::parse(name).is_some()
}
