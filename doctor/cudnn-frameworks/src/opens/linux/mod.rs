//! Simulates an environment's Python process under ld.so.

mod cudnn;
mod python_code;

use cudnn_probe::facts::PathFacts;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{Lookup, Resolution, Rule, Simulation};
use cudnn_probe::{Host, Os, VARIABLES};

use super::known::Known;
use super::outcome::{Damaged, MissingLibrary, OpenedFile, Opens, SearchRule, Use};
use super::process::{Import, Process};
use crate::drop_in::is_drop_in;
use crate::environment::Environment;
use crate::environment::layout::is_virtual;
use crate::files::{file_name, first_matching, matching};
use crate::framework::kind::Binaries;
use crate::library_names::{CudnnName, is_cudnn, is_of_cuda, is_of_driver};

#[derive(Debug)]
pub(crate) struct LdSoProcess {
    simulation: Simulation,
    environment: Environment,
    host: Host,
    known: Known,
    /// The CUDA major version that the imported framework was built for.
    cuda_major: Option<u32>,
    /// How loaded files were first found.
    found_by: HashMap<PathBuf, SearchRule>,
    /// The number of lookups in `found_by`.
    seen: usize,
}

impl LdSoProcess {
    pub(super) fn start(environment: &Environment, host: &Host, known: &Known) -> Self {
        let names = ["bin/python3", "bin/python"].map(|name| environment.root.join(name));
        let python = names.iter().find_map(|file| Simulation::with_files(file, host, &known.files).ok());
        let [first, _] = &names;
        let mut process = LdSoProcess {
            // A script, or an environment without a Python, counts as a program without a run path.
            simulation: python.unwrap_or_else(|| Simulation::without_program(first, host, &known.files)),
            environment: environment.clone(),
            host: host.clone(),
            known: known.clone(),
            cuda_major: None,
            found_by: HashMap::new(),
            seen: 0,
        };
        process.note_lookups(true, None);
        process
    }

    /// Loads libraries, and notes which of these and their dependencies are linked to cuDNN.
    fn load(&mut self, files: &[PathBuf], opens: &mut Opens) {
        let first = self.simulation.objects().len();
        for file in files {
            self.simulation.open_file(file, 0);
        }
        self.note_lookups(true, None);
        let loaded = self.simulation.objects().get(first..).unwrap_or_default().iter();
        let is_user = |needed: &[String]| needed.iter().any(|name| is_cudnn(name));
        let users = loaded.filter(|object| !is_cudnn(file_name(&object.path)) && is_user(object.needed()));
        opens.users = users.map(|object| object.path.clone()).collect();
    }

    /// Opens cuDNN by name from the library that does so, or records that no library needs cuDNN.
    fn open_by_name(&mut self, import: &Import, opens: &mut Opens) {
        let Some(opener) = import.opener(&import.kind.linux, Os::Linux, opens) else { return };
        // The framework's extension library loads this library now or later.
        let Some(from) = self.loaded(&opener).or_else(|| self.simulation.open_file(&opener, 0)) else { return };
        self.dlopen(&format!("libcudnn.so.{}", import.cudnn_major()), from, None);
        opens.users.push(opener);
    }

    /// Adds the cuDNN files found since this lookup, and the files that the shim opens.
    fn follow(&mut self, first_lookup: usize, uses: Use, opens: &mut Opens) {
        let lookups = self.simulation.lookups().get(first_lookup..).unwrap_or_default();
        // The shim comes before the libraries that it opens.
        let (shims, others): (Vec<&Lookup>, Vec<&Lookup>) =
            lookups.iter().filter(|lookup| is_cudnn(&lookup.name)).partition(|lookup| is_shim(&lookup.name));
        opens.name = shims.first().map(|lookup| lookup.name.clone());
        opens.damaged = shims.iter().chain(&others).filter_map(|lookup| Damaged::of(lookup)).collect();
        opens.cudnn = shims.into_iter().chain(others).filter_map(|lookup| self.opened(lookup)).collect();
        opens.missing = lookups.iter().filter(|lookup| is_missing(lookup)).map(|lookup| lookup.name.clone()).collect();
        match opens.cudnn.first().cloned() {
            Some(shim) if is_drop_in(&shim.path) => opens.add_selected(self.host_of_environment(), Os::Linux),
            Some(shim) if is_shim(&shim.name) => cudnn::open(self, &shim, uses, opens),
            _ => {}
        }
    }

    fn open_cuda(&mut self, import: &Import, opens: &mut Opens) {
        let Binaries { opens_by_name, .. } = &import.kind.linux;
        let opener = opens_by_name.as_ref().and_then(|by_name| first_matching(import.dir, by_name.from));
        let Some(from) = opener.and_then(|opener| self.loaded(&opener)) else { return };
        for name in import.cuda_names(&import.kind.linux) {
            if !self.dlopen(name, from, None) {
                opens.missing.push((*name).to_owned());
            }
        }
    }

    /// Adds files outside cuDNN that ld.so fails to load, and missing libraries other than CUDA and driver libraries.
    fn add_others(&self, lookups: &[Lookup], opens: &mut Opens) {
        for lookup in lookups.iter().filter(|lookup| !is_cudnn(&lookup.name) && !is_of_driver(&lookup.name)) {
            opens.damaged_others.extend(Damaged::of(lookup));
            let requester = file_name(&lookup.requested_by);
            let is_of_cuda = [lookup.name.as_str(), requester].into_iter().any(is_of_cuda);
            if matches!(lookup.resolution, Resolution::Missing) && !is_of_cuda && !lookup.name.contains('/') {
                opens
                    .missing_libraries
                    .push(MissingLibrary { name: lookup.name.clone(), needed_by: lookup.requested_by.clone() });
            }
        }
    }

    fn loaded(&self, file: &Path) -> Option<usize> {
        let real = |path: &Path| self.known.files.canonical(path);
        let is_it = |path: &Path| path == file || real(path) == real(file);
        self.simulation.objects().iter().position(|object| is_it(&object.path))
    }

    /// Simulates `dlopen` on a machine with a driver, because a missing driver is not the environment's fault. `by` is
    /// how Python code found the path.
    fn dlopen(&mut self, name: &str, from: usize, by: Option<SearchRule>) -> bool {
        let before = self.simulation.lookups().len();
        let mut is_loaded = self.simulation.dlopen(name, from);
        if !is_loaded {
            let lookups = self.simulation.lookups().get(before..).unwrap_or_default();
            let is_found = |lookup: &Lookup| matches!(lookup.resolution, Resolution::Found { .. });
            let lacks_driver = lookups.iter().all(|lookup| is_found(lookup) || is_of_driver(&lookup.name));
            is_loaded = lacks_driver && self.simulation.dlopen_incomplete(name, from).is_some();
        }
        self.note_lookups(is_loaded, by);
        is_loaded
    }

    /// Simulates `ctypes.CDLL` with an absolute path.
    fn open_path(&mut self, file: &Path, by: SearchRule) -> bool {
        match file.to_str() {
            _ if !file.leads_to_file() => false,
            Some(name) => self.dlopen(name, 0, Some(by)),
            None => {
                let is_loaded = self.simulation.open_file(file, 0).is_some();
                self.note_lookups(is_loaded, Some(by));
                is_loaded
            }
        }
    }

    /// Records how files were found since the last call, by ld.so or by Python code. Failed loads are ignored, because
    /// the files are unloaded again.
    fn note_lookups(&mut self, is_loaded: bool, by: Option<SearchRule>) {
        let new = self.simulation.lookups().get(self.seen..).unwrap_or_default();
        for lookup in new.iter().filter(|_| is_loaded) {
            let Resolution::Found { path, rule } = &lookup.resolution else { continue };
            let by = match (&by, rule) {
                (_, Rule::Loaded) => continue,
                // ld.so finds the dependencies.
                (Some(by), Rule::Path) => by.clone(),
                _ => SearchRule::LdSo(rule.clone()),
            };
            self.found_by.entry(path.clone()).or_insert(by);
        }
        self.seen = self.simulation.lookups().len();
    }

    fn opened(&self, lookup: &Lookup) -> Option<OpenedFile> {
        let Resolution::Found { path, rule } = &lookup.resolution else { return None };
        Some(OpenedFile {
            name: lookup.name.clone(),
            version: self.known.release(path),
            by: self.found_by.get(path).cloned().unwrap_or_else(|| SearchRule::LdSo(rule.clone())),
            path: path.clone(),
        })
    }

    /// Returns the host as this project's loader sees it in the environment's Python.
    fn host_of_environment(&self) -> Host {
        let root = &self.environment.root;
        let variables: Vec<&str> = VARIABLES.iter().copied().filter(|name| *name != "VIRTUAL_ENV").collect();
        let host = self.host.clone().without_executable().with_variables(&variables);
        let host = if root.join("conda-meta").leads_to_dir() { host.env("CONDA_PREFIX", root) } else { host };
        if is_virtual(root) { host.env("VIRTUAL_ENV", root) } else { host }
    }
}

impl Process for LdSoProcess {
    fn fork(&self) -> Box<dyn Process> {
        Box::new(LdSoProcess {
            simulation: self.simulation.fork(),
            environment: self.environment.clone(),
            host: self.host.clone(),
            known: self.known.clone(),
            cuda_major: self.cuda_major,
            found_by: self.found_by.clone(),
            seen: 0,
        })
    }

    fn import(&mut self, import: &Import, uses: Use) -> Opens {
        let Import { kind, dir, .. } = import;
        let mut opens = Opens { is_optional: kind.is_cudnn_optional, ..Opens::default() };
        self.cuda_major = import.cuda_major();
        opens.half_searched = python_code::run(self, import);
        let first_lookup = self.simulation.lookups().len();
        let files: Vec<PathBuf> = kind.linux.libraries.iter().flat_map(|pattern| matching(dir, pattern)).collect();
        self.load(&files, &mut opens);
        if opens.users.is_empty() {
            self.open_by_name(import, &mut opens);
        }
        self.follow(first_lookup, uses, &mut opens);
        self.open_cuda(import, &mut opens);
        self.add_others(self.simulation.lookups().get(first_lookup..).unwrap_or_default(), &mut opens);
        // These libraries must not affect other lookups.
        let mut apart = self.simulation.fork();
        for file in kind.linux.also_opens.iter().flat_map(|pattern| matching(dir, pattern)) {
            apart.open_file(&file, 0);
        }
        self.add_others(apart.lookups(), &mut opens);
        let paths = self.simulation.objects().iter().map(|object| &object.path);
        let cuda = paths.filter(|path| {
            let name = file_name(path);
            is_of_cuda(name) && !is_cudnn(name) && !is_of_driver(name)
        });
        opens.cuda = cuda.cloned().collect();
        opens.remove_duplicates();
        opens
    }

    fn open(&mut self, files: &[PathBuf]) -> Opens {
        let mut opens = Opens::default();
        let first_lookup = self.simulation.lookups().len();
        self.load(files, &mut opens);
        self.follow(first_lookup, Use::All, &mut opens);
        self.add_others(self.simulation.lookups().get(first_lookup..).unwrap_or_default(), &mut opens);
        opens.remove_duplicates();
        opens
    }
}

fn is_missing(lookup: &Lookup) -> bool {
    is_of_cuda(&lookup.name) && !is_of_driver(&lookup.name) && !matches!(lookup.resolution, Resolution::Found { .. })
}

fn is_shim(name: &str) -> bool {
    CudnnName::parse(name).is_some()
}
