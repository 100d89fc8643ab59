//! Simulates an environment's Python process on Windows. A loaded DLL serves every later request with the same base
//! name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cudnn_probe::dll_search::{Failure, Lookup, Mode, ProcessFacts, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Host, Os, Version, dll_search};

use super::known::Known;
use super::outcome::{Damaged, OpenedFile, Opens, SearchRule, Use};
use super::process::{Import, Process};
use crate::drop_in::is_drop_in;
use crate::environment::Environment;
use crate::environment::layout::is_virtual;
use crate::files::{file_name, matching};
use crate::framework::kind::Binaries;
use crate::library_names::{CudnnName, is_cudnn, is_of_driver};

#[derive(Debug)]
pub(crate) struct DllProcess {
    simulation: Simulation,
    root: PathBuf,
    /// The host, if it runs the environment's operating system.
    host: Option<Host>,
    known: Known,
    /// How loaded files were first found.
    found_by: HashMap<PathBuf, SearchRule>,
}

impl DllProcess {
    pub(super) fn start(environment: &Environment, host: &Host, known: &Known) -> Self {
        let host = (Os::HOST == Os::Windows).then(|| host.clone());
        let mut facts = host.as_ref().map(ProcessFacts::from_host).unwrap_or_default();
        let root = environment.root.clone();
        // A virtual environment starts the base Python, and no cuDNN is next to that.
        facts.application_dir = Some(root.clone()).filter(|root| !is_virtual(root));
        let (simulation, known) = (Simulation::new(facts), known.clone());
        DllProcess { simulation, root, host, known, found_by: HashMap::new() }
    }

    fn open_cuda(&mut self, dlls: &Binaries, import: &Import) {
        let variable = dlls.searches_bin_of.zip(self.host.as_ref()).and_then(|(name, host)| host.variable(name));
        if let Some(dir) = variable {
            self.simulation.set_dll_directory(PathBuf::from(dir).join("bin"));
        }
        for name in import.cuda_names(dlls) {
            self.open_dll(Path::new(name), Mode::Standard);
        }
    }

    /// Adds found and missing cuDNN DLLs, and the files that the shim opens.
    fn follow(&mut self, first_lookup: usize, uses: Use, opens: &mut Opens) {
        let lookups = self.simulation.lookups().get(first_lookup..).unwrap_or_default();
        let is_shim = |lookup: &&Lookup| CudnnName::parse(name_of(lookup)).is_some();
        let (shims, others): (Vec<&Lookup>, Vec<&Lookup>) =
            lookups.iter().filter(|lookup| is_cudnn(name_of(lookup))).partition(is_shim);
        // A shim that DLLs import has priority over a shim that only Python code opens.
        let is_import = |lookup: &&&Lookup| lookup.requested_by.is_some();
        let shim = shims.iter().find(is_import).or(shims.first()).copied();
        opens.name = shim.map(|shim| name_of(shim).to_owned());
        opens.cudnn = shim.into_iter().chain(others).filter_map(|lookup| self.opened(lookup)).collect();
        self.add_missing(lookups, opens);
        let shim = opens.cudnn.first().map(|first| (first.clone(), CudnnName::parse(&first.name)));
        match (shim, self.host.clone()) {
            (Some((shim, Some(_))), host) if is_drop_in(&shim.path) => {
                opens.has_drop_in = true;
                host.into_iter().for_each(|host| opens.add_selected(host, Os::Windows));
            }
            (Some((shim, Some(name))), _) => self.open_sub_libraries(&shim, name, uses, opens),
            _ => {}
        }
    }

    /// Opens the DLLs that this shim opens by name, and the DLLs that graph opens then.
    fn open_sub_libraries(&mut self, shim: &OpenedFile, name: CudnnName, uses: Use, opens: &mut Opens) {
        let (by_shim, by_graph) = uses.libraries();
        let release = shim.version.unwrap_or(Version::new(9, 0, 0));
        let libraries = by_shim.iter().chain(by_graph).filter(|library| has_library(release, **library));
        let names: Vec<&str> = match name.major {
            // For a convolution, cuDNN 8 opens these.
            Some(8) => vec!["cudnn_ops_infer64_8.dll", "cudnn_cnn_infer64_8.dll"],
            _ => libraries.map(|library| library.windows_name()).collect(),
        };
        for name in names {
            let before = self.simulation.lookups().len();
            self.open_dll(Path::new(name), Mode::Standard);
            let lookups = self.simulation.lookups().get(before..).unwrap_or_default();
            opens.cudnn.extend(lookups.first().and_then(|lookup| self.opened(lookup)));
            self.add_missing(lookups, opens);
        }
        opens.add_damage(&self.known);
    }

    fn add_missing(&self, lookups: &[Lookup], opens: &mut Opens) {
        opens
            .missing
            .extend(lookups.iter().filter(|lookup| is_missing(lookup)).map(|lookup| name_of(lookup).to_owned()));
        for lookup in lookups {
            let Resolution::Unusable { path, .. } = &lookup.resolution else { continue };
            let list = if is_cudnn(name_of(lookup)) { &mut opens.damaged } else { &mut opens.damaged_others };
            list.extend(self.damaged(path));
        }
        // A missing symbol shows that two DLLs are from different releases.
        for failure in self.simulation.failures() {
            let Failure::MissingSymbol { symbol, dll, needed_by } = failure else { continue };
            if [dll, needed_by].iter().all(|file| is_cudnn(file_name(file))) {
                let reason = format!("needs {symbol}, which {dll:?} does not export: they are from different releases");
                opens.damaged.push(Damaged { path: needed_by.clone(), reason, rule: None });
            }
        }
    }

    /// Returns why Windows cannot load this file.
    fn damaged(&self, file: &Path) -> Option<Damaged> {
        let reason = self.simulation.failures().iter().find_map(|failure| match failure {
            Failure::Unusable { path, error, .. } if path == file => Some(error.to_string()),
            _ => None,
        });
        let reason = reason.or_else(|| Some(dll_search::imports(file).err()?.to_string()))?;
        Some(Damaged { path: file.to_owned(), reason, rule: None })
    }

    fn open_dll(&mut self, dll: &Path, mode: Mode) {
        let before = self.simulation.lookups().len();
        self.simulation.open(dll, mode);
        for lookup in self.simulation.lookups().get(before..).unwrap_or_default() {
            let Resolution::Found { path, rule } = &lookup.resolution else { continue };
            let by = match rule {
                Rule::Loaded => continue,
                Rule::Path => SearchRule::Python,
                rule => SearchRule::Windows(*rule),
            };
            self.found_by.entry(path.clone()).or_insert(by);
        }
    }

    fn opened(&self, lookup: &Lookup) -> Option<OpenedFile> {
        let Resolution::Found { path, rule } = &lookup.resolution else { return None };
        Some(OpenedFile {
            name: name_of(lookup).to_owned(),
            version: self.known.release(path),
            by: self.found_by.get(path).cloned().unwrap_or(SearchRule::Windows(*rule)),
            path: path.clone(),
        })
    }
}

impl Process for DllProcess {
    fn fork(&self) -> Box<dyn Process> {
        Box::new(DllProcess {
            simulation: self.simulation.fork(),
            root: self.root.clone(),
            host: self.host.clone(),
            known: self.known.clone(),
            found_by: self.found_by.clone(),
        })
    }

    fn import(&mut self, import: &Import, uses: Use) -> Opens {
        let Import { kind, dir, .. } = import;
        let mut opens = Opens { is_optional: kind.is_cudnn_optional, ..Opens::default() };
        let Some(dlls) = &kind.windows else { return Opens { is_unexamined: true, ..opens } };
        let (first_module, first_lookup) = (self.simulation.modules().len(), self.simulation.lookups().len());
        if let Some(pattern) = dlls.opens_first {
            self.simulation.add_dir(pattern.rsplit_once('/').map_or(dir.to_path_buf(), |(below, _)| dir.join(below)));
            if dlls.adds_library_bin {
                self.simulation.add_dir(self.root.join("Library").join("bin"));
            }
        }
        for pattern in dlls.opens_first.iter().chain(&dlls.libraries) {
            let is_provider = dlls.provider == Some(pattern);
            let mode = if is_provider { Mode::AlteredSearchPath } else { Mode::DefaultDirs };
            matching(dir, pattern).iter().for_each(|file| self.open_dll(file, mode));
        }
        let loaded = self.simulation.modules().get(first_module..).unwrap_or_default().iter();
        let users = loaded.filter(|module| !is_cudnn(file_name(&module.path)) && module.imports().any(is_cudnn));
        opens.users = users.map(|module| module.path.clone()).collect();
        self.open_cuda(dlls, import);
        if opens.users.is_empty()
            && let Some(opener) = import.opener(dlls, Os::Windows, &mut opens)
        {
            self.open_dll(Path::new(&format!("cudnn64_{}.dll", import.cudnn_major())), Mode::Standard);
            opens.users.push(opener);
        }
        self.follow(first_lookup, uses, &mut opens);
        // If only Python code opens the shim, the framework may not need cuDNN.
        if opens.needs_none {
            opens.missing.retain(|name| !is_cudnn(name));
            opens = Opens { needs_none: true, missing: opens.missing, ..Opens::default() };
        }
        opens.remove_duplicates();
        opens
    }

    fn open(&mut self, _: &[PathBuf]) -> Opens {
        Opens { is_unexamined: true, ..Opens::default() }
    }
}

/// Returns whether a CUDA or cuDNN DLL is missing, or a CUDA DLL is unusable. Other DLLs are ignored.
fn is_missing(lookup: &Lookup) -> bool {
    let name = name_of(lookup).to_ascii_lowercase();
    const STARTS: [&str; 9] =
        ["cudnn", "cublas", "cudart64", "cufft", "curand64", "cusolver", "cusparse", "cupti64", "nvrtc"];
    let is_of_cuda = STARTS.iter().any(|start| name.starts_with(start)) || name.starts_with("nvjitlink");
    let is_lost = match lookup.resolution {
        Resolution::Missing => true,
        Resolution::Unusable { .. } => !is_cudnn(&name),
        _ => false,
    };
    is_of_cuda && !is_of_driver(&name) && is_lost
}

fn name_of(lookup: &Lookup) -> &str {
    lookup.name.rsplit(['/', '\\']).next().unwrap_or_default()
}
