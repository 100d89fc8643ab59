//! The directories that the search goes through, in order.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::ld_so::{Cache, distinct_default_dirs, library_path};
use crate::library::Library;
use crate::platform::{CUDA_TARGET_DIRS, Opened, canonicalize, may_be_planted, open_regular, path_from_bytes};

use super::origin::{Candidate, Origin};

/// The environment variable that selects the one directory (or one library file in it) to take cuDNN from.
pub const DIR_VARIABLE: &str = "CUDNN_LOADER_DIR";

/// The environment variables with the root of a CUDA toolkit or a cuDNN.
const CUDA_VARIABLES: [&str; 6] = ["CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];

/// All environment variables that a search reads.
pub const VARIABLES: &[&str] = &[
    DIR_VARIABLE,
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

/// Directories below the root of an archive, a toolkit, a Python or conda environment on Windows, or of wheels that
/// were unpacked by hand (`pip install --target`).
const SUBDIRECTORIES: [&str; 9] = [
    "",
    "lib",
    "lib64",
    "bin",
    "Lib/site-packages/nvidia/cudnn/bin",
    "Library/bin",
    "nvidia/cudnn/lib",
    "nvidia/cudnn_jit/lib",
    "nvidia/cudnn/bin",
];

/// Directories in which cuDNN is often installed.
const WELL_KNOWN: [&str; 6] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/lib",
    "/opt/conda/lib",
];

/// The search for cuDNN: the directories to look into. The order is fixed: see [`Origin`].
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
    host: Host,
    explicit: Option<PathBuf>,
    loaded: Vec<PathBuf>,
    adjacent: Vec<PathBuf>,
    run_paths: Vec<Candidate>,
    other_run_paths: Vec<Candidate>,
    variable: &'static str,
}

impl Search {
    /// The complete search on this host.
    pub fn new(host: Host) -> Self {
        Search {
            host,
            explicit: None,
            loaded: Vec::new(),
            adjacent: Vec::new(),
            run_paths: Vec::new(),
            other_run_paths: Vec::new(),
            variable: DIR_VARIABLE,
        }
    }

    /// The host that it searches.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Takes cuDNN from this directory, or from the directory of this file, and looks nowhere else.
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Adds a directory from which this process has already loaded a library of cuDNN. It comes first, after an
    /// explicit one.
    pub fn add_loaded(mut self, dir: impl Into<PathBuf>) -> Self {
        self.loaded.push(dir.into());
        self
    }

    /// Adds the directory of the library that runs this search, for example the drop-in library. It comes before the
    /// executable's directory.
    pub fn add_adjacent(mut self, dir: impl Into<PathBuf>) -> Self {
        self.adjacent.push(dir.into());
        self
    }

    /// Searches these directories, which are in the run paths (DT_RPATH or DT_RUNPATH) of the program and of the libraries
    /// that it has loaded. Those of files that depend on cuDNN's shim come after the executable's directory, and those of
    /// other files, which may open the shim, after `LD_LIBRARY_PATH`.
    pub fn run_paths(mut self, of_dependents: Vec<Candidate>, of_others: Vec<Candidate>) -> Self {
        self.run_paths = of_dependents;
        self.other_run_paths = of_others;
        self
    }

    /// Reads this environment variable instead of [`DIR_VARIABLE`].
    pub fn variable(mut self, name: &'static str) -> Self {
        self.variable = name;
        self
    }

    /// The directory that the program requests in code or by the environment variable, if it does.
    #[must_use]
    pub fn explicit_candidate(&self) -> Option<Candidate> {
        let variable = || Some((self.host.variable(self.variable)?.into(), Origin::Variable(self.variable)));
        let explicit = self.explicit.clone().map(|path| (path, Origin::Explicit)).or_else(variable);
        explicit.map(|(path, origin)| Candidate::new(dir_of(path), origin))
    }

    /// The directories, in order. A directory with two reasons comes twice.
    ///
    /// An explicit directory disables the rest of the search: if it is not usable, the result is an error and not
    /// another installation.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.in_stages(self.stages())
    }

    /// The rules that apply to this search: each gives directories, and costs nothing if one before it had a usable one.
    pub(crate) fn stages(&self) -> &'static [Stage] {
        if self.explicit_candidate().is_some() { &[Search::explicit_dir] } else { STAGES }
    }

    fn explicit_dir(&self) -> Vec<Candidate> {
        self.explicit_candidate().into_iter().collect()
    }

    /// The directories, in order, without an explicit one.
    pub fn default_candidates(&self) -> impl Iterator<Item = Candidate> + '_ {
        self.in_stages(STAGES)
    }

    /// The directories with libraries below the root of a Python or conda environment, a CUDA toolkit, an unpacked
    /// archive or an unpacked wheel; then all others below it that contain a cuDNN, within limits of depth and number.
    /// This does not follow symbolic links.
    #[must_use]
    pub fn under_root(&self, root: &Path) -> Vec<Candidate> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let origin = Origin::UnderRoot(root.clone());
        let mut found = wheels(&root, &origin);
        found.extend(
            SUBDIRECTORIES.iter().chain(CUDA_TARGET_DIRS).map(|dir| Candidate::new(root.join(dir), origin.clone())),
        );
        let further = dirs_with_cudnn(&root).into_iter().map(|dir| Candidate::new(dir, origin.clone()));
        let further: Vec<Candidate> = further.filter(|candidate| !found.contains(candidate)).collect();
        found.extend(further);
        found
    }

    /// Runs each stage only when no stage before it had a usable directory.
    fn in_stages<'a>(&'a self, stages: &'static [Stage]) -> impl Iterator<Item = Candidate> + 'a {
        stages.iter().flat_map(|stage| stage(self))
    }

    fn already_loaded(&self) -> Vec<Candidate> {
        self.loaded.iter().map(|dir| Candidate::new(dir, Origin::Loaded)).collect()
    }

    fn adjacent(&self) -> Vec<Candidate> {
        let mut found: Vec<Candidate> =
            self.adjacent.iter().map(|dir| Candidate::new(dir, Origin::AdjacentToLibrary)).collect();
        // A user may put a link to a privileged program into their directory.
        if let Some(dir) = self.host.program_dir().filter(|_| !self.host.is_secure_execution()) {
            let above = dir.parent().unwrap_or(dir);
            for candidate in [dir.to_owned(), dir.join("lib"), above.join("lib")] {
                if !may_be_planted(&candidate, dir) {
                    found.push(Candidate::new(candidate, Origin::Adjacent));
                }
            }
        }
        found
    }

    fn in_run_paths(&self) -> Vec<Candidate> {
        self.run_paths.clone()
    }

    fn python_environments(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for origin in self.environments() {
            if let Some(root) = origin.root() {
                found.extend(wheels(root, &origin));
                if let Origin::Conda(root) = &origin {
                    found.push(Candidate::new(root.join("lib"), origin.clone()));
                }
            }
        }
        found
    }

    /// The Python and conda environments that the search looks into, whether they contain a cuDNN or not.
    #[must_use]
    pub fn environments(&self) -> Vec<Origin> {
        let active = self.absolute("VIRTUAL_ENV");
        let mut found: Vec<Origin> = active.clone().map(Origin::VirtualEnvironment).into_iter().collect();
        if let Some(root) = &active {
            self.add_base_python(root, &mut found);
        }
        found.extend(self.absolute("CONDA_PREFIX").map(Origin::Conda));
        if let Some((root, is_virtual)) = self.python_on_path() {
            if active.as_ref() != Some(&root) {
                found.push(Origin::Python(root.clone()));
                self.add_base_python(&root, &mut found);
            }
            // A virtual environment has the user's packages only with those of its base Python.
            if active.is_none() && !is_virtual {
                self.add_pip_roots(&root, None, &mut found);
            }
        }
        found
    }

    /// Adds the roots whose packages Python also imports in this virtual environment, in Python's order, if it was made
    /// with `--system-site-packages`.
    fn add_base_python(&self, environment: &Path, found: &mut Vec<Origin>) {
        if let Some(base) = base_python(environment) {
            self.add_pip_roots(&base, Some(environment), found);
            found.push(python(base, Some(environment)));
        }
    }

    /// Adds the roots to which pip installs without --prefix: for the user, and, on Debian, for a Python in /usr.
    fn add_pip_roots(&self, base: &Path, environment: Option<&Path>, found: &mut Vec<Origin>) {
        if let Some(home) = self.absolute("HOME") {
            found.push(python(home.join(".local"), environment));
        }
        if base == self.host.system("/usr") {
            found.push(python(self.host.system("/usr/local"), environment));
        }
    }

    /// The environment of the first `python3` on `PATH`, and whether that is a virtual one. This runs nothing, so it cannot
    /// know what pyenv's scripts would choose; in a program that they start, `PATH` leads to the real one.
    fn python_on_path(&self) -> Option<(PathBuf, bool)> {
        let path = self.host.variable("PATH")?;
        let mut programs = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("python3"));
        environment_of(&programs.find(|program| program.exists())?)
    }

    /// The directories that ld.so would search for a bare name.
    fn ld_so(&self) -> Vec<Candidate> {
        let library_path = library_path(&self.host).into_iter();
        let mut found: Vec<Candidate> = library_path.map(|dir| Candidate::new(dir, Origin::LibraryPath)).collect();
        found.extend_from_slice(&self.other_run_paths);
        for file in Cache::read(&self.host).files(&self.host, Library::Graph.linux_name()) {
            if let Some(dir) = file.parent() {
                found.push(Candidate::new(dir, Origin::LdCache));
            }
        }
        for dir in distinct_default_dirs(&self.host) {
            found.push(Candidate::new(dir, Origin::LdDefault));
        }
        found
    }

    fn cuda_variables(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        for name in CUDA_VARIABLES {
            let Some(root) = self.absolute(name) else { continue };
            for dir in ["lib64", "lib"].iter().chain(CUDA_TARGET_DIRS) {
                found.push(Candidate::new(root.join(dir), Origin::CudaVariable(name)));
            }
        }
        found
    }

    fn well_known(&self) -> Vec<Candidate> {
        let default_dirs = distinct_default_dirs(&self.host);
        let dirs = WELL_KNOWN.iter().map(|dir| self.host.system(dir)).filter(|dir| !default_dirs.contains(dir));
        dirs.map(|dir| Candidate::new(dir, Origin::WellKnown)).collect()
    }

    fn absolute(&self, variable: &str) -> Option<PathBuf> {
        self.host.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }
}

/// A rule of the search.
pub(crate) type Stage = fn(&Search) -> Vec<Candidate>;

/// The rules of the search, in order.
const STAGES: &[Stage] = &[
    Search::already_loaded,
    Search::adjacent,
    Search::in_run_paths,
    Search::python_environments,
    Search::ld_so,
    Search::cuda_variables,
    Search::well_known,
];

/// The directories below this one that contain a library of cuDNN, the nearest first.
fn dirs_with_cudnn(root: &Path) -> Vec<PathBuf> {
    const MAX_DEPTH: usize = 9;
    const MAX_DIRS: usize = 50_000;
    let is_cudnn = |name: &str| name.starts_with("libcudnn") && name.contains(".so.") || is_windows_cudnn(name);
    let (mut found, mut level, mut count) = (Vec::new(), vec![root.to_owned()], 0);
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for dir in level {
            count += 1;
            if count > MAX_DIRS {
                return found;
            }
            let mut has_cudnn = false;
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                has_cudnn |= entry.file_name().to_str().is_some_and(is_cudnn);
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    next.push(entry.path());
                }
            }
            if has_cudnn {
                found.push(dir);
            }
        }
        next.sort();
        level = next;
    }
    found
}

fn is_windows_cudnn(name: &str) -> bool {
    Library::ALL.iter().any(|library| name == library.windows_name())
}

/// The directory itself, or that of the file.
fn dir_of(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(parent) if path.is_file() => parent.to_owned(),
        _ => path,
    }
}

/// A root with packages that this virtual environment includes, or, without one, those of the `python3` on `PATH`.
fn python(root: PathBuf, environment: Option<&Path>) -> Origin {
    match environment {
        Some(environment) => Origin::BasePython { root, environment: environment.to_owned() },
        None => Origin::Python(root),
    }
}

/// The environment of this Python, and whether that is a virtual one: the directory above its `bin` if that is a virtual
/// environment; else, like Python itself, the one of the program that the link leads to.
#[must_use]
pub fn environment_of(python: &Path) -> Option<(PathBuf, bool)> {
    let root = python.parent()?.parent()?;
    if root.join("pyvenv.cfg").exists() {
        return Some((root.to_owned(), true));
    }
    let program = canonicalize(python).ok()?;
    // Keep the spelling of the path where it leads to the same directory (/bin for /usr/bin).
    let real = program.parent()?.parent()?;
    let is_same = canonicalize(root).is_ok_and(|root| root == real);
    Some((if is_same { root.to_owned() } else { real.to_owned() }, false))
}

/// The root of the Python that a virtual environment was made with, if the environment includes its packages.
#[must_use]
pub fn base_python(environment: &Path) -> Option<PathBuf> {
    const MAX_LEN: u64 = 64 << 10;
    let Opened::Regular(file, _) = open_regular(&environment.join("pyvenv.cfg")).ok()? else { return None };
    let mut settings = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut settings).ok()?;
    let (mut is_included, mut bin) = (false, PathBuf::new());
    for line in settings.split(|byte| *byte == b'\n') {
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else { continue };
        let (key, value) = line.split_at(equals);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        match key.trim_ascii() {
            b"include-system-site-packages" => is_included = value == b"true",
            b"home" => bin = path_from_bytes(value),
            _ => {}
        }
    }
    if !is_included || !bin.is_absolute() {
        return None;
    }
    // On most systems /bin is a link to /usr/bin.
    let mut base = canonicalize(bin).ok()?;
    base.pop().then_some(base)
}

/// The directories of cuDNN's wheels below the root of an environment: newest Python first, the full wheel before the
/// JIT-only one.
fn wheels(root: &Path, origin: &Origin) -> Vec<Candidate> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        // In most environments lib64 is a link to lib.
        if lib == "lib64" && root.join(lib).is_symlink() {
            continue;
        }
        let dir = root.join(lib);
        if matches!(origin, Origin::VirtualEnvironment(_)) && is_denied(&dir.join(".")) {
            found.push(Candidate::new(dir, origin.clone()));
            continue;
        }
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        let python = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            // The free-threaded Python has a `t` at the end: python3.14t.
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix("python3")?;
            // Debian's packages for all versions are in `python3`.
            let is_common = rest.is_empty();
            let minor = if is_common { 0 } else { rest.strip_prefix('.')?.trim_end_matches('t').parse().ok()? };
            // A virtual environment uses one Python of those that the system may have.
            let is_used = match origin {
                Origin::BasePython { environment, .. } => is_common || environment.join("lib").join(&name).is_dir(),
                _ => true,
            };
            is_used.then(|| (minor, entry.path()))
        };
        // There are a few at most: std's sort would be a good part of the drop-in library.
        let mut pythons: Vec<(u32, PathBuf)> = Vec::new();
        for python in entries.filter_map(python) {
            let index = pythons.partition_point(|other| *other > python);
            pythons.insert(index, python);
        }
        for (_, python) in pythons {
            // Debian's Python has dist-packages instead.
            for packages in ["site-packages", "dist-packages"] {
                for product in ["cudnn", "cudnn_jit"] {
                    let dir = python.join(packages).join("nvidia").join(product).join("lib");
                    if dir.is_dir() || is_denied(&dir) {
                        found.push(Candidate::new(dir, origin.clone()));
                    }
                }
            }
        }
    }
    found
}

/// Is this path in a directory that this user may not enter? Then it becomes a candidate, so that it is reported.
fn is_denied(path: &Path) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}
