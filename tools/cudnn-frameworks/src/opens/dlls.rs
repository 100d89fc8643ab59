//! The import of a framework into a simulated process of Windows: the DLLs that its Python code opens by their paths, those
//! that they import, and those that they open by name. Windows takes a DLL that is loaded for every request of its base
//! name, from wherever it was loaded.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cudnn_probe::dll_search::{Facts, Failure, Lookup, Mode, Resolution, Rule, Simulation};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Host, Library, Os, Requirements, Search, Version, dll_search, identify_any, select};

use super::sub_libraries::Use;
use super::{By, Damaged, Opened, Opens, bytes};
use crate::built_for::BuiltFor;
use crate::cudnn_name::{CudnnName, is_cudnn};
use crate::driver::is_of_driver;
use crate::drop_in::is_drop_in;
use crate::environment::Environment;
use crate::kind::{Dlls, Kind, first_matching, matching};

/// What cuDNN 8's shim opens for a convolution.
const OF_CUDNN_8: [&str; 2] = ["cudnn_ops_infer64_8.dll", "cudnn_cnn_infer64_8.dll"];

/// A simulated process of the environment's Python.
#[derive(Debug)]
pub(crate) struct Process {
    simulation: Simulation,
    root: PathBuf,
    /// The host, if its variables and directories are those of the environment's system.
    host: Option<Host>,
    /// How each loaded file was found first.
    found_by: HashMap<PathBuf, By>,
}

impl Process {
    /// Starts the environment's Python.
    pub(crate) fn start(environment: &Environment, host: &Host) -> Self {
        let host = (Os::HOST == Os::Windows).then(|| host.clone());
        let mut facts = host.as_ref().map(Facts::of_host).unwrap_or_default();
        // A virtual environment's program starts that of its base, beside which no DLL of cuDNN lies.
        let is_virtual = environment.root.join("pyvenv.cfg").is_file();
        facts.application_dir = (!is_virtual).then(|| environment.root.clone());
        Process { simulation: Simulation::new(facts), root: environment.root.clone(), host, found_by: HashMap::new() }
    }

    /// The same process, in which something else happens next.
    pub(crate) fn fork(&self) -> Self {
        Process {
            simulation: self.simulation.fork(),
            root: self.root.clone(),
            host: self.host.clone(),
            found_by: self.found_by.clone(),
        }
    }

    /// Imports a framework, whose module is in this directory.
    pub(crate) fn import(&mut self, kind: &Kind, dir: &Path, built_for: &BuiltFor, uses: Use) -> Opens {
        let mut opens = Opens { is_optional: kind.is_cudnn_optional, ..Opens::default() };
        let Some(dlls) = kind.dlls() else {
            opens.is_unexamined = true;
            return opens;
        };
        let (first_module, first_lookup) = (self.simulation.modules().len(), self.simulation.lookups().len());
        if let Some(pattern) = dlls.opens {
            self.simulation.add_dir(pattern.rsplit_once('/').map_or(dir.to_owned(), |(below, _)| dir.join(below)));
            if dlls.adds_library_bin {
                self.simulation.add_dir(self.root.join("Library").join("bin"));
            }
            for file in matching(dir, pattern) {
                self.open(&file, Mode::DefaultDirs);
            }
        }
        for file in matching(dir, dlls.module) {
            self.open(&file, Mode::DefaultDirs);
        }
        for file in dlls.provider.iter().flat_map(|pattern| matching(dir, pattern)) {
            self.open(&file, Mode::AlteredSearchPath);
        }
        self.set_users(first_module, &mut opens);
        self.open_cuda(dlls, built_for);
        if opens.users.is_empty() {
            self.open_by_name(dlls, dir, built_for, &mut opens);
        }
        self.read_lookups(first_lookup, uses, &mut opens);
        // A shim that only its Python code opens, and that no DLL of it uses, says nothing of what it needs.
        if opens.needs_none {
            let missing = std::mem::take(&mut opens.missing).into_iter().filter(|name| !is_cudnn(name)).collect();
            opens = Opens { needs_none: true, missing, ..Opens::default() };
        }
        opens
    }

    /// The shims of cuDNN that the process has loaded.
    pub(crate) fn shims(&self) -> impl Iterator<Item = &Path> {
        let paths = self.simulation.modules().iter().map(|module| module.path.as_path());
        paths.filter(|path| CudnnName::parse(&base_name(path)).is_some())
    }

    /// The DLLs of the framework that import cuDNN.
    fn set_users(&self, first: usize, opens: &mut Opens) {
        let loaded = self.simulation.modules().get(first..).unwrap_or_default().iter();
        let users = loaded.filter(|module| !is_cudnn(&base_name(&module.path)) && module.imports().any(is_cudnn));
        opens.users = users.map(|module| module.path.clone()).collect();
    }

    /// Opens the DLLs of CUDA that its code opens by name.
    fn open_cuda(&mut self, dlls: &Dlls, built_for: &BuiltFor) {
        let variable = dlls.searches_bin_of.zip(self.host.as_ref()).and_then(|(name, host)| host.variable(name));
        if let Some(dir) = variable {
            self.simulation.set_dll_directory(PathBuf::from(dir).join("bin"));
        }
        let major = built_for.cuda.as_ref().map(|cuda| cuda.value.0);
        let names = dlls.opens_cuda.iter().filter(|(of, _)| Some(*of) == major).flat_map(|(_, names)| *names);
        for name in names {
            self.open(Path::new(name), Mode::Standard);
        }
    }

    /// Opens cuDNN by name, if a DLL of it contains the name, or finds that none does.
    fn open_by_name(&mut self, dlls: &Dlls, dir: &Path, built_for: &BuiltFor, opens: &mut Opens) {
        let opener = dlls.opens_by_name.and_then(|pattern| first_matching(dir, pattern));
        let Some(opener) = opener.filter(|file| bytes::contain_cudnn(file)) else {
            opens.needs_none = is_complete(dlls, dir);
            return;
        };
        opens.is_optional = true;
        let major = built_for.cudnn.as_ref().map_or(9, |cudnn| cudnn.value.major);
        self.open(Path::new(&format!("cudnn64_{major}.dll")), Mode::Standard);
        opens.users.push(opener);
    }

    /// Enters the DLLs of cuDNN that it gets, and what it misses; then what the shim opens.
    fn read_lookups(&mut self, first: usize, uses: Use, opens: &mut Opens) {
        let lookups = self.simulation.lookups().get(first..).unwrap_or_default();
        let is_shim = |lookup: &&Lookup| CudnnName::parse(&name_of(lookup)).is_some();
        let (shims, others): (Vec<&Lookup>, Vec<&Lookup>) =
            lookups.iter().filter(|lookup| is_cudnn(&name_of(lookup))).partition(is_shim);
        // What a DLL imports, before what Python code opens and nobody imports.
        let is_import = |lookup: &&&Lookup| lookup.requested_by.is_some();
        let shim = shims.iter().find(is_import).or(shims.first()).copied();
        opens.name = shim.map(name_of);
        opens.cudnn = shim.into_iter().chain(others).filter_map(|lookup| self.opened(lookup)).collect();
        opens.missing = lookups.iter().filter(|lookup| is_missing(lookup)).map(name_of).collect();
        self.add_damaged(lookups, opens);
        if let Some(shim) = opens.cudnn.first().cloned().filter(|first| CudnnName::parse(&first.name).is_some()) {
            self.sub_libraries(&shim, uses, opens);
        }
        let mut seen = HashSet::new();
        opens.cudnn.retain(|opened| seen.insert(opened.path.clone()));
        let mut seen = HashSet::new();
        opens.missing.retain(|name| seen.insert(name.to_ascii_lowercase()));
        let mut seen = HashSet::new();
        opens.damaged.retain(|damaged| seen.insert(damaged.path.clone()));
    }

    /// Opens what this shim opens by name, and what the graph library opens then.
    fn sub_libraries(&mut self, shim: &Opened, uses: Use, opens: &mut Opens) {
        if is_drop_in(&shim.path) {
            opens.has_drop_in = true;
            self.add_selected(shim, opens);
            return;
        }
        let names: Vec<&str> = if CudnnName::parse(&shim.name).and_then(|name| name.major) == Some(8) {
            OF_CUDNN_8.to_vec()
        } else {
            let first: &[Library] = match uses {
                Use::All => &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext],
                Use::Graph => &[Library::Graph, Library::Ops],
            };
            let later: &[Library] = if uses == Use::All { Library::OPENED_BY_GRAPH } else { &[] };
            let release = shim.version.unwrap_or(Version::new(9, 0, 0));
            let all = first.iter().chain(later).filter(|library| has_library(release, **library));
            all.map(|library| library.windows_name()).collect()
        };
        for name in names {
            let before = self.simulation.lookups().len();
            self.open(Path::new(name), Mode::Standard);
            let lookups = self.simulation.lookups().get(before..).unwrap_or_default();
            opens.cudnn.extend(lookups.first().and_then(|lookup| self.opened(lookup)));
            opens.missing.extend(lookups.iter().filter(|lookup| is_missing(lookup)).map(name_of));
            self.add_damaged(lookups, opens);
        }
        let files = opens.cudnn.iter().filter_map(|opened| damage(&opened.path));
        let damaged: Vec<Damaged> = files.collect();
        opens.damaged.extend(damaged);
    }

    /// Adds the installation that this project's loader selects for the drop-in.
    fn add_selected(&self, drop_in: &Opened, opens: &mut Opens) {
        let Some((host, dir)) = self.host.clone().zip(drop_in.path.parent()) else { return };
        if let Some(shim) = opens.cudnn.first_mut() {
            // What is beside it need not be what it loads.
            shim.version = None;
        }
        let search = Search::new(host).add_adjacent(dir);
        match select(&search, &Requirements::default()).installation {
            Some(selected) => opens.cudnn.insert(
                1,
                Opened {
                    name: Library::Graph.windows_name().to_owned(),
                    path: selected.path(Library::Graph),
                    by: By::DropIn,
                    version: Some(selected.version),
                },
            ),
            None => opens.missing.push(Library::Graph.windows_name().to_owned()),
        }
    }

    fn add_damaged(&self, lookups: &[Lookup], opens: &mut Opens) {
        for lookup in lookups {
            let Resolution::Unusable { path, .. } = &lookup.resolution else { continue };
            let damaged = self.damaged(path);
            if is_cudnn(&name_of(lookup)) {
                opens.damaged.extend(damaged);
            } else {
                opens.damaged_others.extend(damaged);
            }
        }
        // A DLL that lacks what another one imports is of another release.
        for failure in self.simulation.failures() {
            let Failure::MissingSymbol { symbol, dll, needed_by } = failure else { continue };
            if [dll, needed_by].iter().all(|file| is_cudnn(&base_name(file))) {
                let reason = format!("needs {symbol}, which {:?} lacks: the two are of different releases", dll);
                opens.damaged.push(Damaged { path: needed_by.clone(), reason, rule: None });
            }
        }
    }

    /// The reason why Windows cannot load this file.
    fn damaged(&self, file: &Path) -> Option<Damaged> {
        let reason = self.simulation.failures().iter().find_map(|failure| match failure {
            Failure::Unusable { path, error, .. } if path == file => Some(error.to_string()),
            _ => None,
        });
        let reason = reason.or_else(|| Some(dll_search::imports(file).err()?.to_string()))?;
        Some(Damaged { path: file.to_owned(), reason, rule: None })
    }

    /// Opens a DLL by its path or its name, and notes how each file was found.
    fn open(&mut self, dll: &Path, mode: Mode) {
        let before = self.simulation.lookups().len();
        self.simulation.open(dll, mode);
        for lookup in self.simulation.lookups().get(before..).unwrap_or_default() {
            let Resolution::Found { path, rule } = &lookup.resolution else { continue };
            let by = match rule {
                Rule::Loaded => continue,
                Rule::Path => By::Python,
                rule => By::Windows(*rule),
            };
            self.found_by.entry(path.clone()).or_insert(by);
        }
    }

    /// The file that a name gets, and how it was found first.
    fn opened(&self, lookup: &Lookup) -> Option<Opened> {
        let Resolution::Found { path, rule } = &lookup.resolution else { return None };
        Some(Opened {
            name: name_of(lookup),
            version: version(path),
            by: self.found_by.get(path).cloned().unwrap_or(By::Windows(*rule)),
            path: path.clone(),
        })
    }
}

/// Whether its DLLs are there and can be read: only then do they show that none needs cuDNN.
fn is_complete(dlls: &Dlls, dir: &Path) -> bool {
    let is_readable =
        |pattern: &str| first_matching(dir, pattern).is_some_and(|file| dll_search::imports(&file).is_ok());
    is_readable(dlls.module) && is_readable(dlls.kernels)
}

/// Whether a DLL of CUDA or cuDNN is missing; one of CUDA that cannot be used counts, too. Those of Windows and of the C run-time library are another matter.
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

/// What is wrong with a DLL of cuDNN 9, if anything is.
fn damage(file: &Path) -> Option<Damaged> {
    let error = identify_any(file, library_of(file)?).err()?;
    Some(Damaged { path: file.to_owned(), reason: error.to_string(), rule: None })
}

fn library_of(file: &Path) -> Option<Library> {
    let name = base_name(file);
    Library::ALL.iter().copied().find(|library| library.windows_name() == name)
}

/// The release of a DLL of cuDNN. The shim states none: that of the graph library beside it.
fn version(file: &Path) -> Option<Version> {
    match library_of(file)? {
        Library::Shim => {
            identify_any(&file.with_file_name(Library::Graph.windows_name()), Library::Graph).ok()?.version
        }
        library => identify_any(file, library).ok()?.version,
    }
}

/// The name that is asked for, without the directory if it is a path.
fn name_of(lookup: &Lookup) -> String {
    lookup.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()
}

/// The name of a file in small letters.
fn base_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}
