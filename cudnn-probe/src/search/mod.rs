//! The folders in which a cuDNN may be, in the order in which they are looked at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

mod host;
mod ld_cache;
mod origin;

use crate::Library;
use crate::select::Candidate;
use ld_cache::LdCache;

pub use host::Host;
pub use origin::Origin;

/// The environment variable that names the one folder (or one library file in it) to take cuDNN from.
pub const DIR_VARIABLE: &str = "CUDNN_LOADER_DIR";

/// The roots below which a CUDA toolkit or a cuDNN may be installed, by their variables' names.
const CUDA_VARIABLES: [&str; 6] = ["CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// Every other environment variable that steers a search, apart from [`DIR_VARIABLE`]: what a build script must watch.
pub const VARIABLES: [&str; 11] = [
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    CUDA_VARIABLES[0],
    CUDA_VARIABLES[1],
    CUDA_VARIABLES[2],
    CUDA_VARIABLES[3],
    CUDA_VARIABLES[4],
    CUDA_VARIABLES[5],
];

/// Where to look. The order is fixed: see [`Origin`].
#[derive(Clone, Debug)]
pub struct Search {
    environment: Host,
    explicit: Option<PathBuf>,
    loaded: Vec<PathBuf>,
    adjacent: Vec<PathBuf>,
    run_paths: Vec<(PathBuf, PathBuf)>,
    variable: &'static str,
}

impl Search {
    /// The whole search, in the given world.
    #[must_use]
    pub fn new(environment: Host) -> Self {
        Search {
            environment,
            explicit: None,
            loaded: Vec::new(),
            adjacent: Vec::new(),
            run_paths: Vec::new(),
            variable: DIR_VARIABLE,
        }
    }

    /// Takes cuDNN from this folder, or from the folder of this file, and looks nowhere else.
    #[must_use]
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Adds a folder from which this process has loaded a library of cuDNN's already: looked at first, after a named one.
    #[must_use]
    pub fn add_loaded(mut self, folder: impl Into<PathBuf>) -> Self {
        self.loaded.push(folder.into());
        self
    }

    /// Adds a folder to look into along with the executable's: that of the drop-in library.
    #[must_use]
    pub fn add_adjacent(mut self, folder: impl Into<PathBuf>) -> Self {
        self.adjacent.push(folder.into());
        self
    }

    /// Adds a folder that a library of this process, or the program itself, names as one to search (DT_RPATH or
    /// DT_RUNPATH), and the file of that library: looked at after the executable's own folder.
    #[must_use]
    pub fn add_run_path(mut self, folder: impl Into<PathBuf>, of: impl Into<PathBuf>) -> Self {
        self.run_paths.push((folder.into(), of.into()));
        self
    }

    /// Reads another variable than [`DIR_VARIABLE`].
    #[must_use]
    pub fn variable(mut self, name: &'static str) -> Self {
        self.variable = name;
        self
    }

    /// The folder that was given in code or by the variable, if one was.
    #[must_use]
    pub fn explicit_candidate(&self) -> Option<Candidate> {
        let variable = || Some((self.environment.variable(self.variable)?.into(), Origin::Variable(self.variable)));
        let named = self.explicit.clone().map(|path| (path, Origin::Explicit)).or_else(variable);
        named.map(|(path, origin)| Candidate { dir: dir_of(path), origin })
    }

    /// The folders, in order. A folder that was named twice comes twice, each time with its origin.
    ///
    /// A path given in code or by the variable stands alone: who names a folder wants that one, and an error where it
    /// does not serve.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        match self.explicit_candidate() {
            Some(named) => Some(named).into_iter().chain(self.stages(&[])),
            None => None.into_iter().chain(self.stages(STAGES)),
        }
    }

    /// The folders in which a cuDNN may be, in order, without the one that was named.
    pub fn default_candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.stages(STAGES)
    }

    /// The folders below the root of an environment, Python's or conda's, of a toolkit, or of an unpacked archive or wheel,
    /// that somebody names.
    #[must_use]
    pub fn under_root(&self, root: &Path) -> Vec<Candidate> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let origin = Origin::UnderRoot(root.clone());
        let mut found = Vec::new();
        wheels(&root, &origin, &mut found);
        for folder in BELOW {
            found.push(Candidate { dir: root.join(folder), origin: origin.clone() });
        }
        found
    }

    /// Each stage is asked only when all before it have given nothing usable.
    fn stages<'a>(&'a self, stages: &'static [Stage]) -> impl Iterator<Item = Candidate> + 'a {
        stages.iter().flat_map(|stage| stage(self))
    }

    fn already_loaded(&self) -> Vec<Candidate> {
        self.loaded.iter().map(|folder| Candidate { dir: folder.clone(), origin: Origin::Loaded }).collect()
    }

    fn adjacent(&self) -> Vec<Candidate> {
        // A user may put a link to a privileged program into a folder of his own.
        if self.environment.is_secure_execution() {
            return Vec::new();
        }
        let program = self.environment.program_dir().map(|folder| {
            let above = folder.parent().unwrap_or(folder);
            [folder.to_owned(), folder.join("lib"), above.join("lib")]
        });
        self.adjacent
            .iter()
            .cloned()
            .chain(program.into_iter().flatten())
            .map(|folder| Candidate { dir: folder, origin: Origin::Adjacent })
            .collect()
    }

    fn in_run_paths(&self) -> Vec<Candidate> {
        let candidate =
            |(folder, of): &(PathBuf, PathBuf)| Candidate { dir: folder.clone(), origin: Origin::RunPath(of.clone()) };
        self.run_paths.iter().map(candidate).collect()
    }

    fn python_environments(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        if let Some(root) = self.absolute("VIRTUAL_ENV") {
            wheels(&root, &Origin::VirtualEnvironment(root.clone()), &mut found);
        }
        if let Some(root) = self.absolute("CONDA_PREFIX") {
            let origin = Origin::Conda(root.clone());
            wheels(&root, &origin, &mut found);
            found.push(Candidate { dir: root.join("lib"), origin });
        }
        if let Some(root) = self.python_on_path() {
            let mut roots = vec![root];
            if self.absolute("VIRTUAL_ENV").is_none() {
                // Where pip puts things without --prefix: for the user, and, on Debian, for a Python in /usr.
                roots.extend(self.absolute("HOME").map(|home| home.join(".local")));
                if roots.first() == Some(&self.environment.system("/usr")) {
                    roots.push(self.environment.system("/usr/local"));
                }
            }
            for root in roots {
                wheels(&root, &Origin::Python(root.clone()), &mut found);
            }
        }
        found
    }

    /// The environment of the first `python3` on PATH: the folder above its `bin`, if that is a virtual environment; else
    /// that of the program which it is a link to, as Python itself goes by. Nothing is run to learn it: what pyenv's
    /// scripts would choose is not known.
    fn python_on_path(&self) -> Option<PathBuf> {
        let path = self.environment.variable("PATH")?;
        let bin = std::env::split_paths(&path)
            .filter(|folder| folder.is_absolute())
            .find(|folder| folder.join("python3").exists())?;
        let root = bin.parent()?;
        if root.join("pyvenv.cfg").exists() {
            return Some(root.to_owned());
        }
        let program = std::fs::canonicalize(bin.join("python3")).ok()?;
        // A path through a link above (/bin for /usr/bin) is kept as it is called.
        let real = program.parent()?.parent()?;
        let is_same = std::fs::canonicalize(root).is_ok_and(|root| root == real);
        Some(if is_same { root.to_owned() } else { real.to_owned() })
    }

    /// What the dynamic linker would search for a bare name: LD_LIBRARY_PATH, its cache, its own folders.
    fn linker(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        let places = LdSearchPath::new(&self.environment);
        for folder in &places.library_path {
            found.push(Candidate { dir: folder.clone(), origin: Origin::LibraryPath });
        }
        for file in places.cached(Library::Graph.file_name()) {
            if let Some(folder) = file.parent() {
                found.push(Candidate { dir: folder.to_owned(), origin: Origin::LdCache });
            }
        }
        for folder in &places.defaults {
            found.push(Candidate { dir: folder.clone(), origin: Origin::LdDefault });
        }
        found
    }

    fn cuda_variables(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for name in CUDA_VARIABLES {
            if let Some(root) = self.absolute(name) {
                for folder in ["lib64", "lib", TARGET_FOLDER] {
                    found.push(Candidate { dir: root.join(folder), origin: Origin::CudaVariable(name) });
                }
            }
        }
        found
    }

    fn well_known(&self) -> Vec<Candidate> {
        ["/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/lib", "/usr/local/lib64", "/opt/conda/lib"]
            .iter()
            .map(|folder| Candidate { dir: self.environment.system(folder), origin: Origin::WellKnown })
            .collect()
    }

    fn absolute(&self, variable: &str) -> Option<PathBuf> {
        self.environment.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

type Stage = fn(&Search) -> Vec<Candidate>;

const STAGES: &[Stage] = &[
    Search::already_loaded,
    Search::adjacent,
    Search::in_run_paths,
    Search::python_environments,
    Search::linker,
    Search::cuda_variables,
    Search::well_known,
];

const TARGET_FOLDER: &str =
    if cfg!(target_arch = "aarch64") { "targets/sbsa-linux/lib" } else { "targets/x86_64-linux/lib" };

/// Where libraries are below a root that somebody names: an archive's or a toolkit's, Windows' Python's and conda's, and
/// wheels unpacked by hand (`pip install --target`).
const BELOW: [&str; 10] = [
    "",
    "lib",
    "lib64",
    TARGET_FOLDER,
    "bin",
    "Lib/site-packages/nvidia/cudnn/bin",
    "Library/bin",
    "nvidia/cudnn/lib",
    "nvidia/cudnn_jit/lib",
    "nvidia/cudnn/bin",
];

const LINKER_FOLDERS: [&str; 5] = if cfg!(target_arch = "aarch64") {
    ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"]
} else {
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"]
};

/// Where the dynamic linker looks for a bare name, apart from the folders that the library asking for it names itself.
#[derive(Clone, Debug)]
pub struct LdSearchPath {
    environment: Host,
    library_path: Vec<PathBuf>,
    cache: LdCache,
    defaults: Vec<PathBuf>,
}

impl LdSearchPath {
    /// Reads them.
    #[must_use]
    pub fn new(environment: &Host) -> Self {
        let path = environment.variable("LD_LIBRARY_PATH").unwrap_or_default();
        let mut defaults: Vec<PathBuf> = LINKER_FOLDERS.iter().map(|folder| environment.system(folder)).collect();
        // On most systems /lib is a link to /usr/lib.
        let mut seen = Vec::new();
        defaults.retain(|folder| match std::fs::canonicalize(folder) {
            Ok(real) if seen.contains(&real) => false,
            Ok(real) => {
                seen.push(real);
                true
            }
            Err(_) => true,
        });
        LdSearchPath {
            environment: environment.clone(),
            // The linker splits it at colons and semicolons; an empty part is the working directory, which is never
            // searched here, nor is a relative one.
            library_path: split(&path).filter(|folder| folder.is_absolute()).collect(),
            cache: LdCache::read(&environment.system("/etc/ld.so.cache")),
            defaults,
        }
    }

    /// The file of this name that it comes upon on LD_LIBRARY_PATH: before the asking library's own folders.
    #[must_use]
    pub fn before(&self, name: &str) -> Option<PathBuf> {
        self.library_path.iter().map(|folder| folder.join(name)).find(|file| file.exists())
    }

    /// The file of this name that it comes upon in its cache and its own folders: after the asking library's.
    #[must_use]
    pub fn after(&self, name: &str) -> Option<PathBuf> {
        let defaults = self.defaults.iter().map(|folder| folder.join(name));
        self.cached(name).chain(defaults).find(|file| file.exists())
    }

    pub(crate) fn cached(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.cache.files(name).into_iter().map(|file| self.environment.system_path(&file))
    }
}

/// A path that names a file stands for the file's folder.
fn dir_of(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(parent) if path.is_file() => parent.to_owned(),
        _ => path,
    }
}

fn split(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        path.as_bytes()
            .split(|byte| matches!(byte, b':' | b';'))
            .map(|part| PathBuf::from(std::ffi::OsString::from_vec(part.to_vec())))
            .collect::<Vec<_>>()
            .into_iter()
    }
    #[cfg(not(unix))]
    std::env::split_paths(path).collect::<Vec<_>>().into_iter()
}

/// The folders of cuDNN's wheels below an environment's root, newest Python first, the full wheel before the JIT one.
fn wheels(root: &Path, origin: &Origin, found: &mut Vec<Candidate>) {
    for lib in ["lib", "lib64"] {
        let mut pythons: Vec<(u32, PathBuf)> = std::fs::read_dir(root.join(lib))
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                // A Python without the global lock ends in `t`.
                let name = entry.file_name();
                let minor = name.to_str()?.strip_prefix("python3.")?.trim_end_matches('t').parse().ok()?;
                Some((minor, entry.path()))
            })
            .collect();
        pythons.sort_by(|a, b| b.cmp(a));
        for (_, python) in pythons {
            // Debian's Python calls the folder dist-packages.
            for packages in ["site-packages", "dist-packages"] {
                for product in ["cudnn", "cudnn_jit"] {
                    let folder = python.join(packages).join("nvidia").join(product).join("lib");
                    if folder.is_dir() {
                        found.push(Candidate { dir: folder, origin: origin.clone() });
                    }
                }
            }
        }
    }
}
