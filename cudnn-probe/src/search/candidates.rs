//! The directories that the search goes through, in order.

use crate::facts;
use std::path::{Path, PathBuf};

use cudnn_os::files::below;

use crate::host::Host;
use crate::library::Library;
use crate::platform::{CUDA_LIB_DIRS, Os};

use super::given::{Given, Stage, included_home};
use super::origin::{Candidate, Origin};
use super::{linux, windows};

/// Directories below the root of an archive, a toolkit, a Python or conda environment on Windows, or of wheels that
/// were unpacked by hand (`pip install --target`).
const SUBDIRECTORIES: [&str; 6] = [
    "bin",
    "Lib/site-packages/nvidia/cudnn/bin",
    "Library/bin",
    "nvidia/cudnn/lib",
    "nvidia/cudnn_jit/lib",
    "nvidia/cudnn/bin",
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
    given: Given,
}

impl Search {
    /// The complete search on this host.
    pub fn new(host: Host) -> Self {
        Search { given: Given::new(host) }
    }

    /// The host that it searches.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.given.host
    }

    /// Takes cuDNN from this directory, or from the directory of this file, and looks nowhere else.
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.given.explicit = Some(path.into());
        self
    }

    /// Adds a directory from which this process has already loaded a library of cuDNN. It comes first, after an
    /// explicit one.
    pub fn add_loaded(mut self, dir: impl Into<PathBuf>) -> Self {
        self.given.loaded.push(dir.into());
        self
    }

    /// Adds the directory of the library that runs this search, for example the drop-in library. It comes before the
    /// executable's directory.
    pub fn add_adjacent(mut self, dir: impl Into<PathBuf>) -> Self {
        self.given.adjacent.push(dir.into());
        self
    }

    /// Searches these directories, which are in the run paths (DT_RPATH or DT_RUNPATH) of the program and of the libraries
    /// that it has loaded. Those of files that depend on cuDNN's shim come after the executable's directory, and those of
    /// other files, which may open the shim, after `LD_LIBRARY_PATH`.
    pub fn run_paths(mut self, of_dependents: Vec<Candidate>, of_others: Vec<Candidate>) -> Self {
        self.given.run_paths = of_dependents;
        self.given.other_run_paths = of_others;
        self
    }

    /// Reads this environment variable instead of [`DIR_VARIABLE`](crate::DIR_VARIABLE).
    pub fn variable(mut self, name: &'static str) -> Self {
        self.given.variable = name;
        self
    }

    /// The directory that the program requests in code or by the environment variable, if it does.
    #[must_use]
    pub fn explicit_candidate(&self) -> Option<Candidate> {
        self.given.explicit_candidate()
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
        if self.given.explicit_candidate().is_some() { &[Given::explicit_dir] } else { STAGES }
    }

    /// What the rules read.
    pub(crate) fn given(&self) -> &Given {
        &self.given
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
        self.look_under_root(root).candidates
    }

    /// Like [`under_root`](Search::under_root), with the directories that the limits left out.
    #[must_use]
    pub fn look_under_root(&self, root: &Path) -> UnderRoot {
        let root = crate::facts::absolute(root).unwrap_or_else(|_| root.to_owned());
        let origin = Origin::UnderRoot(root.clone());
        let mut found = wheels(&root, &origin);
        found.extend(
            [""].iter()
                .chain(CUDA_LIB_DIRS)
                .chain(&SUBDIRECTORIES)
                .map(|dir| Candidate::new(below(&root, dir), origin.clone())),
        );
        let walk = Walk::below(&root);
        let further = walk.with_cudnn.into_iter().map(|dir| Candidate::new(dir, origin.clone()));
        let further: Vec<Candidate> = further.filter(|candidate| !found.contains(candidate)).collect();
        found.extend(further);
        UnderRoot { candidates: found, unsearched: walk.unsearched }
    }

    /// Runs each stage only when no stage before it had a usable directory.
    fn in_stages<'a>(&'a self, stages: &'static [Stage]) -> impl Iterator<Item = Candidate> + 'a {
        stages.iter().flat_map(|stage| stage(&self.given))
    }

    /// The Python and conda environments that the search looks into, whether they contain a cuDNN or not.
    #[must_use]
    pub fn environments(&self) -> Vec<Origin> {
        match Os::HOST {
            Os::Linux => linux::environments(&self.given),
            Os::Windows => windows::environments(&self.given),
        }
    }
}

/// The rules of the search on this system, in order.
const STAGES: &[Stage] = match Os::HOST {
    Os::Linux => linux::STAGES,
    Os::Windows => windows::STAGES,
};

/// The directories of cuDNN's wheels below the root of an environment: newest Python first, the full wheel before the
/// JIT-only one.
fn wheels(root: &Path, origin: &Origin) -> Vec<Candidate> {
    match Os::HOST {
        Os::Linux => linux::wheels(root, origin),
        Os::Windows => windows::wheels(root, origin),
    }
}

/// The environment of this Python, and whether that is a virtual one: the directory above its `bin` (Windows: its
/// directory, or the one above `Scripts`) if that is a virtual environment; else, like Python itself, the one of the
/// program that the link leads to.
#[must_use]
pub fn environment_of(python: &Path) -> Option<(PathBuf, bool)> {
    match Os::HOST {
        Os::Linux => linux::environment_of(python),
        Os::Windows => windows::environment_of(python),
    }
}

/// The root of the Python that a virtual environment was made with, if the environment includes its packages.
#[must_use]
pub fn base_python(environment: &Path) -> Option<PathBuf> {
    let home = included_home(environment)?;
    match Os::HOST {
        Os::Linux => linux::base_of_home(home),
        Os::Windows => windows::base_of_home(home),
    }
}

/// The directories to look into below a root, and those that were not searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UnderRoot {
    /// The directories, in order.
    pub candidates: Vec<Candidate>,
    /// The directories that were not searched, nor anything below them: they are too deep, there were too many before
    /// them, or this user may not read them.
    #[cfg_attr(feature = "serde", serde(with = "crate::portable"))]
    pub unsearched: Vec<PathBuf>,
}

/// A search of all directories below one, level by level.
#[derive(Default)]
struct Walk {
    /// The directories that contain a library of cuDNN, the nearest first.
    with_cudnn: Vec<PathBuf>,
    unsearched: Vec<PathBuf>,
}

impl Walk {
    /// The number of levels that are searched from the root on, and again from each environment on. A wheel's libraries
    /// are six levels below the root of its environment.
    const MAX_DEPTH: usize = 9;
    const MAX_DIRS: usize = 50_000;

    fn below(root: &Path) -> Self {
        let mut walk = Walk::default();
        let (mut level, mut count) = (vec![(root.to_owned(), 0)], 0);
        while !level.is_empty() {
            let mut next = Vec::new();
            for (dir, depth) in level {
                count += 1;
                if depth >= Self::MAX_DEPTH || count > Self::MAX_DIRS {
                    walk.unsearched.push(dir);
                } else {
                    walk.read(dir, depth, &mut next);
                }
            }
            next.sort();
            level = next;
        }
        walk
    }

    /// Reads a directory, and adds those in it to the next level.
    fn read(&mut self, dir: PathBuf, depth: usize, next: &mut Vec<(PathBuf, usize)>) {
        let entries = match facts::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.unsearched.push(dir);
                }
                return;
            }
        };
        let is_cudnn = |name: &str| name.starts_with("libcudnn") && name.contains(".so.") || is_windows_cudnn(name);
        let is_mark = |name: &str| name == "pyvenv.cfg" || name == "conda-meta";
        let (mut has_cudnn, mut is_environment, mut dirs) = (false, false, Vec::new());
        for entry in entries.flatten() {
            let name = entry.file_name();
            has_cudnn |= name.to_str().is_some_and(is_cudnn);
            is_environment |= name.to_str().is_some_and(is_mark);
            // Python alone puts files there, and each directory with modules has one.
            if name != "__pycache__" && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
        let depth = if is_environment { 1 } else { depth + 1 };
        next.extend(dirs.into_iter().map(|dir| (dir, depth)));
        if has_cudnn {
            self.with_cudnn.push(dir);
        }
    }
}

fn is_windows_cudnn(name: &str) -> bool {
    Library::ALL.iter().any(|library| name == library.windows_name())
}
