//! Simulates the Windows loader for a DLL and, breadth first, all dependencies.

use crate::facts::{self, PathFacts};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::escape::shown_path;
use crate::image::{DllLinks, Import, dll_links, missing_imports};
use crate::platform::Architecture;

use super::failure::Failure;
use super::names::{is_known, is_virtual, with_extension};
use super::process_facts::ProcessFacts;
use super::resolution::{Resolution, Rule};

/// Limits that no real program reaches.
const MAX_MODULES: usize = 2048;
const MAX_LOOKUPS: usize = 1 << 16;

/// The way in which a program opens a DLL. It determines the directories that Windows searches for the DLL and for
/// imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mode {
    /// `LoadLibrary`, and the imports of a program. Windows searches the program directory, the system directories, the
    /// working directory and `PATH`.
    Standard,
    /// `LOAD_WITH_ALTERED_SEARCH_PATH` with an absolute path. Windows searches the directory of the DLL instead of the
    /// program directory.
    AlteredSearchPath,
    /// `LOAD_LIBRARY_SEARCH_DEFAULT_DIRS`, plus the directory of the DLL if it is opened by absolute path
    /// (`LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR`). Python opens extension modules this way. Windows does not search `PATH`.
    DefaultDirs,
}

/// A requested DLL name and the result of the search.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Lookup {
    /// The name as written in the requesting file.
    pub name: String,
    /// The requesting file, or `None` if the program opens the DLL.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub requested_by: Option<PathBuf>,
    /// The result.
    pub resolution: Resolution,
}

/// A program or DLL that Windows would load.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Module {
    /// The path of the file.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub path: PathBuf,
    imports: Vec<Import>,
}

impl Module {
    /// Returns the names of the imported DLLs.
    pub fn imports(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(|import| import.dll.as_str())
    }
}

/// Explains why Windows fails to load this DLL with `LOAD_WITH_ALTERED_SEARCH_PATH` and the absolute path. The result
/// is the first failure that Windows encounters. Returns `None` if the files look correct. In this case, either the
/// initialization of the DLL failed (error 1114) or the files have changed.
#[must_use]
pub fn explain(dll: &Path, facts: &ProcessFacts) -> Option<Failure> {
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(dll, Mode::AlteredSearchPath);
    simulation.failures.into_iter().next()
}

/// Looks up a name as [`Mode::Standard`] does. Assumes that the DLL that opens it adds no directories.
#[must_use]
pub fn resolve(name: &str, facts: &ProcessFacts) -> Option<Resolution> {
    let mut simulation = Simulation::new(facts.clone());
    simulation.open(Path::new(name), Mode::Standard);
    Some(simulation.lookups.into_iter().next()?.resolution)
}

/// The DLLs that Windows would load into a process.
#[derive(Debug)]
pub struct Simulation {
    facts: ProcessFacts,
    modules: Vec<Module>,
    /// The loaded file for each base name in lower case.
    by_name: BTreeMap<String, PathBuf>,
    lookups: Vec<Lookup>,
    failures: Vec<Failure>,
}

impl Simulation {
    /// Creates a process with these directories and loaded DLLs.
    #[must_use]
    pub fn new(facts: ProcessFacts) -> Self {
        let mut by_name = BTreeMap::new();
        for path in &facts.loaded {
            // Windows uses the first DLL with a name.
            by_name.entry(base_name(path)).or_insert_with(|| path.clone());
        }
        Simulation { facts, modules: Vec::new(), by_name, lookups: Vec::new(), failures: Vec::new() }
    }

    /// Simulates the start of a program with all imports.
    ///
    /// # Errors
    /// Returns an error if the program itself is unsuitable.
    pub fn start(program: &Path, mut facts: ProcessFacts) -> Result<Self, ProbeError> {
        let links = loadable(program)?;
        facts.application_dir = program.parent().map(Path::to_owned);
        let mut simulation = Simulation::new(facts);
        simulation.by_name.insert(base_name(program), program.to_owned());
        simulation.modules.push(Module { path: program.to_owned(), imports: links.imports });
        simulation.follow(0, Mode::Standard, None);
        Ok(simulation)
    }

    /// Simulates opening this DLL by base name or absolute path. Returns whether Windows can load the DLL with all
    /// imports. Even after a failure, files that were found stay loaded, which shows everything the DLL would get.
    pub fn open(&mut self, dll: &Path, mode: Mode) -> bool {
        let (first, failures) = (self.modules.len(), self.failures.len());
        let name = with_extension(&dll.to_string_lossy());
        // Only an absolute path changes the search directories.
        let dll_dir = dll.parent().filter(|dir| dir.is_absolute());
        let found = match dll_dir {
            Some(dir) => self.file(dir, dll),
            None => self.search(&name, mode, None),
        };
        self.request(&name, None, found);
        self.follow(first, mode, dll_dir);
        self.failures.len() == failures
    }

    /// Returns a copy of the process that keeps the loaded modules but drops the lookups. Use it to try a different
    /// loading order.
    #[must_use]
    pub fn fork(&self) -> Self {
        Simulation {
            facts: self.facts.clone(),
            modules: self.modules.clone(),
            by_name: self.by_name.clone(),
            lookups: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Adds a directory like `AddDllDirectory` (Python: `os.add_dll_directory`).
    pub fn add_dir(&mut self, dir: PathBuf) {
        if !self.facts.added_dirs.contains(&dir) {
            self.facts.added_dirs.push(dir);
        }
    }

    /// Replaces the working directory with another directory like `SetDllDirectory`.
    pub fn set_dll_directory(&mut self, dir: PathBuf) {
        self.facts.dll_directory = Some(dir);
    }

    /// Returns all lookups in the order of the Windows loader.
    #[must_use]
    pub fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }

    /// Returns the program and all loaded DLLs except those of Windows, in loading order.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns all problems that prevent Windows from loading the opened DLLs, in the order in which Windows would
    /// encounter them.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Returns the loaded file with this base name, ignoring case.
    #[must_use]
    pub fn loaded(&self, name: &str) -> Option<&Path> {
        self.by_name.get(&name.to_ascii_lowercase()).map(PathBuf::as_path)
    }

    /// Looks up the imports of all modules, starting with this index.
    fn follow(&mut self, first: usize, mode: Mode, dll_dir: Option<&Path>) {
        let mut index = first;
        while let Some(module) = self.modules.get(index).filter(|_| index < MAX_MODULES) {
            let (by, imports) = (module.path.clone(), module.imports.clone());
            for import in imports {
                let found = self.search(&import.dll, mode, dll_dir);
                if let Some(dll) = self.request(&import.dll, Some(&by), found) {
                    self.check_symbols(&by, &dll, &import);
                }
            }
            index += 1;
        }
    }

    /// Checks imported symbols. Windows resolves symbols after it has found all DLLs, and unreadable DLLs are reported
    /// before.
    fn check_symbols(&mut self, by: &Path, dll: &Path, import: &Import) {
        if let Some(symbol) = missing_imports(dll, &import.symbols).ok().and_then(|missing| missing.into_iter().next())
        {
            self.failures.push(Failure::MissingSymbol { symbol, dll: dll.to_owned(), needed_by: by.to_owned() });
        }
    }

    /// Loads the file that was found for a name, and returns the path.
    fn request(&mut self, name: &str, by: Option<&Path>, found: Option<(PathBuf, Rule)>) -> Option<PathBuf> {
        if self.lookups.len() >= MAX_LOOKUPS {
            return None;
        }
        let resolution = if is_virtual(name) {
            Resolution::Virtual
        } else if let Some((path, rule)) = found {
            match if rule == Rule::Loaded { Ok(()) } else { self.load(&path) } {
                Ok(()) => Resolution::Found { path, rule },
                Err(error) => {
                    let needed_by = by.map(Path::to_owned);
                    self.failures.push(Failure::Unusable { path: path.clone(), needed_by, error });
                    Resolution::Unusable { path, rule }
                }
            }
        } else {
            self.failures.push(Failure::MissingDll { name: name.to_owned(), needed_by: by.map(Path::to_owned) });
            Resolution::Missing
        };
        let found = match &resolution {
            Resolution::Found { path, .. } => Some(path.clone()),
            _ => None,
        };
        self.lookups.push(Lookup { name: name.to_owned(), requested_by: by.map(Path::to_owned), resolution });
        found
    }

    /// Imports of DLLs that belong to Windows are not examined.
    fn load(&mut self, path: &Path) -> Result<(), ProbeError> {
        let imports = if self.facts.is_of_system(path) && !is_installed(&base_name(path)) {
            Vec::new()
        } else {
            loadable(path)?.imports
        };
        self.by_name.entry(base_name(path)).or_insert_with(|| path.to_owned());
        self.modules.push(Module { path: path.to_owned(), imports });
        Ok(())
    }

    /// Returns the DLL at this path. A loaded DLL with the same base name only replaces it for imports.
    fn file(&self, dir: &Path, dll: &Path) -> Option<(PathBuf, Rule)> {
        let is_loaded = self.by_name.get(&base_name(dll)).is_some_and(|loaded| *loaded == dll);
        let exact = dll.leads_to_file().then(|| dll.to_owned());
        let file = exact.or_else(|| file_in(dir, &with_extension(dll.file_name()?.to_str()?)))?;
        Some((file, if is_loaded { Rule::Loaded } else { Rule::Path }))
    }

    /// Searches for the file with this base name.
    fn search(&self, name: &str, mode: Mode, dll_dir: Option<&Path>) -> Option<(PathBuf, Rule)> {
        if name.contains(['/', '\\', ':']) || name.is_empty() {
            return None;
        }
        if let Some(loaded) = self.by_name.get(&name.to_ascii_lowercase()) {
            return Some((loaded.clone(), Rule::Loaded));
        }
        let facts = &self.facts;
        if is_known(name)
            && let Some(file) = facts.system_dir.as_deref().and_then(|dir| file_in(dir, name))
        {
            return Some((file, Rule::Known));
        }
        let one = |dir: &Option<PathBuf>, rule| dir.clone().map(|dir| (dir, rule));
        let all = |dirs: &[PathBuf], rule| dirs.iter().map(|dir| (dir.clone(), rule)).collect::<Vec<_>>();
        let application = one(&facts.application_dir, Rule::ApplicationDir);
        let of_dll = dll_dir.map(|dir| (dir.to_owned(), Rule::DllDir));
        let set = one(&facts.dll_directory, Rule::AddedDir);
        let system = one(&facts.system_dir, Rule::SystemDir);
        let mut dirs: Vec<(PathBuf, Rule)> = Vec::new();
        if mode == Mode::DefaultDirs {
            dirs.extend(of_dll.into_iter().chain(application));
            dirs.extend(all(&facts.added_dirs, Rule::AddedDir));
            dirs.extend(set.into_iter().chain(system));
        } else {
            dirs.extend(of_dll.filter(|_| mode == Mode::AlteredSearchPath).or(application));
            let working = one(&facts.working_dir, Rule::WorkingDir).filter(|_| set.is_none());
            let windows = one(&facts.windows_dir, Rule::SystemDir);
            dirs.extend([set, system, windows, working].into_iter().flatten());
            dirs.extend(all(&facts.path, Rule::PathVariable));
        }
        dirs.into_iter().find_map(|(dir, rule)| Some((file_in(&dir, name)?, rule)))
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resolution {
            Resolution::Found { path, rule } => write!(f, "{:?} => {} ({rule})", self.name, shown_path(path)),
            Resolution::Virtual => write!(f, "{:?} => part of Windows", self.name),
            Resolution::Missing => write!(f, "{:?} => not found", self.name),
            Resolution::Unusable { path, rule } => {
                write!(f, "{:?} => {} ({rule}), which cannot be loaded", self.name, shown_path(path))
            }
        }
    }
}

/// Reads a file that Windows loads into an x86-64 program. cuDNN for Windows supports only this architecture.
fn loadable(path: &Path) -> Result<DllLinks, ProbeError> {
    let links = dll_links(path)?;
    let wanted = Architecture::X86_64;
    if links.architecture == wanted {
        Ok(links)
    } else {
        Err(ProbeError::WrongArchitecture { found: links.architecture, wanted })
    }
}

/// Returns whether installers put this DLL into the Windows directory, where dependencies may be missing.
fn is_installed(name: &str) -> bool {
    ["vcruntime140", "msvcp140", "concrt140", "vcomp140", "cudnn", "cublas", "cudart", "nvrtc", "zlibwapi"]
        .iter()
        .any(|installed| name.starts_with(installed))
}

fn base_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    name.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase()
}

/// Finds the file with this name, ignoring case like Windows. The returned name is spelled as on disk.
fn file_in(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = facts::read_dir(dir).ok()?.into_iter();
    let is_named =
        |entry: &facts::DirEntry| entry.file_name().to_str().is_some_and(|found| found.eq_ignore_ascii_case(name));
    entries.filter(is_named).map(|entry| entry.path()).find(|path| path.leads_to_file())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::image::fake_dll::FakeDll;

    /// The directories of a simulated machine, usable on any system.
    struct World(PathBuf);

    impl World {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("cudnn probe größe {test} {}", std::process::id()));
            let _ = std::fs::remove_dir_all(&root);
            let world = World(root);
            world.dll("windows/System32/kernel32.dll", &["Sleep"], &[]);
            world
        }

        /// Creates a DLL with these exports and imports.
        fn dll(&self, path: &str, exports: &[&str], imports: &[(&str, &[&str])]) -> PathBuf {
            let file = self.path(path);
            let name = path.rsplit('/').next().unwrap();
            let exports: Vec<(&str, [u8; 4])> = exports.iter().map(|name| (*name, [0; 4])).collect();
            FakeDll { exports: &exports, imports, ..FakeDll::new(name) }.write(&file);
            file
        }

        fn path(&self, path: &str) -> PathBuf {
            path.split('/').fold(self.0.clone(), |dir, name| dir.join(name))
        }

        fn facts(&self) -> ProcessFacts {
            ProcessFacts {
                application_dir: Some(self.path("app")),
                system_dir: Some(self.path("windows/System32")),
                windows_dir: Some(self.path("windows")),
                working_dir: Some(self.path("work")),
                path: vec![self.path("tools"), self.path("cudnn")],
                ..ProcessFacts::default()
            }
        }

        /// Returns the file and the rule for each name.
        fn found(&self, simulation: &Simulation) -> Vec<String> {
            let shown = |lookup: &Lookup| match &lookup.resolution {
                Resolution::Found { path, rule } => {
                    let path = path.strip_prefix(&self.0).unwrap().to_string_lossy().replace('\\', "/");
                    format!("{path} ({rule})")
                }
                _ => lookup.to_string(),
            };
            simulation.lookups().iter().map(shown).collect()
        }

        fn failure(&self, dll: &Path, facts: &ProcessFacts) -> (u32, String) {
            let failure = explain(dll, facts).unwrap();
            let text = failure.to_string().replace(&*self.0.to_string_lossy(), "$").replace('\\', "/");
            (failure.error_code(), text)
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const KERNEL: (&str, &[&str]) = ("KERNEL32.dll", &["Sleep"]);

    #[test]
    fn directories_are_searched_in_windows_order() {
        let world = World::new("dll-order");
        let everywhere = ["cudnn", "app", "added", "windows/System32", "windows", "work", "tools"];
        let opener = world.dll("cudnn/opener.dll", &[], &[("Plugin.DLL", &[]), KERNEL]);
        let files: Vec<PathBuf> =
            everywhere.iter().map(|dir| world.dll(&format!("{dir}/plugin.dll"), &[], &[])).collect();
        let found = |mode: Mode, facts: ProcessFacts, dll: &Path| {
            let mut simulation = Simulation::new(facts);
            assert!(simulation.open(dll, mode), "{:?}", simulation.failures());
            world.found(&simulation)
        };
        let added = ProcessFacts { added_dirs: vec![world.path("added")], ..world.facts() };
        // Remove the files one by one, so that each removal reveals the next rule.
        for (removed, standard, altered, default) in [
            (
                None,
                "app/plugin.dll (directory of the program)",
                "cudnn/plugin.dll (directory of the DLL)",
                "cudnn/plugin.dll (directory of the DLL)",
            ),
            (
                Some(0),
                "app/plugin.dll (directory of the program)",
                "windows/System32/plugin.dll (directory of Windows)",
                "app/plugin.dll (directory of the program)",
            ),
            (
                Some(1),
                "windows/System32/plugin.dll (directory of Windows)",
                "windows/System32/plugin.dll (directory of Windows)",
                "added/plugin.dll (directory that the program has added)",
            ),
            (
                Some(2),
                "windows/System32/plugin.dll (directory of Windows)",
                "windows/System32/plugin.dll (directory of Windows)",
                "windows/System32/plugin.dll (directory of Windows)",
            ),
            (Some(3), "windows/plugin.dll (directory of Windows)", "windows/plugin.dll (directory of Windows)", ""),
            (Some(4), "work/plugin.dll (working directory)", "work/plugin.dll (working directory)", ""),
            (Some(5), "tools/plugin.dll (PATH)", "tools/plugin.dll (PATH)", ""),
        ] {
            if let Some(index) = removed {
                std::fs::remove_file(&files[index]).unwrap();
            }
            assert_eq!(found(Mode::Standard, world.facts(), &opener)[1], standard, "{removed:?}");
            assert_eq!(found(Mode::AlteredSearchPath, world.facts(), &opener)[1], altered, "{removed:?}");
            let mut simulation = Simulation::new(added.clone());
            assert_eq!(simulation.open(&opener, Mode::DefaultDirs), !default.is_empty());
            let by_default = &world.found(&simulation)[1];
            assert!(
                by_default == default || default.is_empty() && by_default == "\"Plugin.DLL\" => not found",
                "{by_default}"
            );
        }
        // A directory set by the program replaces the working directory.
        let set = ProcessFacts { dll_directory: Some(world.path("added")), ..world.facts() };
        world.dll("work/plugin.dll", &[], &[]);
        world.dll("added/plugin.dll", &[], &[]);
        let expected = "added/plugin.dll (directory that the program has added)";
        assert_eq!(found(Mode::Standard, set, &opener)[1], expected);
        // A loaded DLL takes precedence over directories, and so does a known DLL.
        let loaded = ProcessFacts { loaded: vec![world.path("elsewhere/PLUGIN.dll")], ..world.facts() };
        world.dll("elsewhere/PLUGIN.dll", &[], &[]);
        world.dll("cudnn/kernel32.dll", &[], &[]);
        let all = found(Mode::AlteredSearchPath, loaded, &opener);
        assert_eq!(all[0], "cudnn/opener.dll (by its path)");
        assert_eq!(all[1], "elsewhere/PLUGIN.dll (already loaded)");
        assert_eq!(all[2], "windows/System32/kernel32.dll (one of Windows' known DLLs)");
        // Use the bare name, as graph does for engines.
        assert_eq!(found(Mode::Standard, world.facts(), Path::new("opener"))[0], "cudnn/opener.dll (PATH)");
    }

    #[test]
    fn the_first_failure_is_the_one_that_windows_hides() {
        let world = World::new("dll-failures");
        let facts = world.facts();
        let cublas: (&str, &[&str]) = ("cublasLt64_12.dll", &["cublasLtCreate"]);
        let graph: (&str, &[&str]) = ("cudnn_graph64_9.dll", &["cudnnCreate"]);
        let ops = world.dll("cudnn/cudnn_ops64_9.dll", &[], &[graph, ("api-ms-win-crt-heap-l1-1-0.dll", &[]), KERNEL]);
        let missing = world.failure(&ops, &facts);
        assert_eq!(missing.0, 126);
        assert_eq!(missing.1, r#""cudnn_graph64_9.dll", which "$/cudnn/cudnn_ops64_9.dll" needs, is missing"#);
        // Use an indirect dependency.
        world.dll("cudnn/cudnn_graph64_9.dll", &["cudnnCreate"], &[cublas, ("VCRUNTIME140.dll", &[])]);
        let missing = world.failure(&ops, &facts);
        assert_eq!(missing.1, r#""cublasLt64_12.dll", which "$/cudnn/cudnn_graph64_9.dll" needs, is missing"#);
        world.dll("tools/cublasLt64_12.dll", &["cublasLtCreate"], &[]);
        let missing = world.failure(&ops, &facts);
        assert!(missing.1.starts_with("\"VCRUNTIME140.dll\""), "{missing:?}");
        world.dll("windows/System32/vcruntime140.dll", &[], &[]);
        assert!(explain(&ops, &facts).is_none());
        // Simulate a graph library from a different release that was loaded from elsewhere.
        world.dll("other/cudnn_graph64_9.dll", &["cudnnDestroy"], &[]);
        let loaded = ProcessFacts { loaded: vec![world.path("other/cudnn_graph64_9.dll")], ..facts.clone() };
        let (code, text) = world.failure(&ops, &loaded);
        assert_eq!(code, 127);
        assert_eq!(
            text,
            r#""$/other/cudnn_graph64_9.dll" lacks "cudnnCreate", which "$/cudnn/cudnn_ops64_9.dll" needs"#
        );
        // Test a 32-bit DLL, a file that is not a DLL, and a missing file.
        FakeDll { machine: 0x14c, ..FakeDll::new("cublasLt64_12.dll") }.write(&world.path("tools/cublasLt64_12.dll"));
        let (code, text) = world.failure(&ops, &facts);
        assert_eq!(code, 193);
        assert!(text.ends_with("needs, is built for 32-bit x86, but x86-64 is required"), "{text}");
        std::fs::write(&ops, "<html>").unwrap();
        assert_eq!(world.failure(&ops, &facts).0, 193);
        std::fs::remove_file(&ops).unwrap();
        let (code, text) = world.failure(&ops, &facts);
        assert_eq!((code, text.as_str()), (126, r#""$/cudnn/cudnn_ops64_9.dll" is missing"#));
    }

    #[test]
    fn dlls_that_import_each_other_or_strange_names_end() {
        let world = World::new("dll-hostile");
        let first =
            world.dll("app/a.dll", &["a"], &[("b.dll", &["b"]), ("", &[]), ("..\\x.dll", &[]), ("C:x.dll", &[])]);
        world.dll("app/b.dll", &["b"], &[("A.DLL", &["a"])]);
        let mut simulation = Simulation::new(world.facts());
        assert!(!simulation.open(&first, Mode::Standard));
        assert_eq!(simulation.failures().len(), 3, "{:?}", simulation.failures());
        assert_eq!(simulation.loaded("B.dll"), Some(world.path("app/b.dll").as_path()));
        let program = Simulation::start(&first, ProcessFacts::new()).unwrap();
        assert_eq!(program.modules().len(), 2);
        assert_eq!(program.modules()[1].imports().collect::<Vec<_>>(), ["A.DLL"]);
    }
}
