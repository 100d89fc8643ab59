//! Defines the search rules for Linux: run paths, directories of ld.so, Python and Debian layouts, and toolkits.

use crate::facts::{self, PathFacts, canonicalize};
use std::path::{Path, PathBuf};

use cudnn_os::files::resolve_beside;

use crate::ld_so::{Cache, distinct_default_dirs, library_path};
use crate::library::Library;
use crate::platform::{CUDA_LIB_DIRS, Os};

use super::given::{CUDA_VARIABLES, Given, Stage, included_home, is_denied, python};
use super::origin::{Candidate, Origin};

/// Directories where cuDNN is often installed.
const WELL_KNOWN: [&str; 5] =
    ["/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/lib", "/usr/local/lib64", "/usr/lib"];

/// The same for containers. The owner is often a user other than root.
const WELL_KNOWN_CONDA: &str = "/opt/conda/lib";

/// The rules of the search, in order.
pub(super) const STAGES: &[Stage] = &[
    Given::already_loaded,
    adjacent,
    Given::in_run_paths,
    in_active_environments,
    in_library_path,
    beside_python_on_path,
    by_ld_so,
    cuda_variables,
    well_known,
];

fn adjacent(given: &Given) -> Vec<Candidate> {
    let beside_library = given.adjacent.iter().filter(|dir| !facts::is_like_tmp(dir));
    let mut found: Vec<Candidate> = beside_library.map(|dir| Candidate::new(dir, Origin::AdjacentToLibrary)).collect();
    // Skip this in secure-execution mode, because a user may create a link to a privileged program.
    if let Some(dir) = given.host.program_dir().filter(|_| !given.host.is_secure_execution()) {
        if !facts::is_like_tmp(dir) {
            found.push(Candidate::new(dir, Origin::Adjacent));
        }
        for beside in [dir, dir.parent().unwrap_or(dir)] {
            if let Some(lib) = resolve_beside(&beside.join("lib"), dir) {
                found.push(Candidate::new(lib, Origin::Adjacent));
            }
        }
    }
    found
}

fn in_active_environments(given: &Given) -> Vec<Candidate> {
    in_environments(active_environments(given))
}

/// The first `python3` on `PATH` is a weaker hint than `LD_LIBRARY_PATH`.
fn beside_python_on_path(given: &Given) -> Vec<Candidate> {
    in_environments(environments_on_path(given))
}

fn in_environments(environments: Vec<Origin>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for origin in environments {
        if let Some(root) = origin.root() {
            found.extend(wheels(root, &origin));
            // In container images, a conda environment is often active only through `PATH`.
            let is_of_conda = matches!(origin, Origin::Python(_)) && root.join("conda-meta").leads_to_dir();
            if is_of_conda || matches!(origin, Origin::Conda(_)) {
                found.push(Candidate::new(root.join("lib"), origin.clone()));
            }
        }
    }
    found
}

/// Returns the Python and conda environments that the search includes, whether or not they contain cuDNN.
pub(super) fn environments(given: &Given) -> Vec<Origin> {
    let mut found = active_environments(given);
    found.extend(environments_on_path(given));
    found
}

/// Returns the environments in `VIRTUAL_ENV` and `CONDA_PREFIX`.
fn active_environments(given: &Given) -> Vec<Origin> {
    let active = given.absolute("VIRTUAL_ENV");
    let mut found: Vec<Origin> = active.clone().map(Origin::VirtualEnvironment).into_iter().collect();
    if let Some(root) = &active {
        add_base_python(given, root, &mut found);
    }
    found.extend(given.absolute("CONDA_PREFIX").map(Origin::Conda));
    found
}

/// Returns the environment of the first `python3` on `PATH` if it is not active, and packages that this Python also
/// imports.
fn environments_on_path(given: &Given) -> Vec<Origin> {
    let active = given.absolute("VIRTUAL_ENV");
    let mut found = Vec::new();
    if let Some((root, is_virtual)) = python_on_path(given) {
        if active.as_ref() != Some(&root) {
            found.push(Origin::Python(root.clone()));
            add_base_python(given, &root, &mut found);
        }
        // A virtual environment includes packages of the user only together with packages of the base Python.
        if active.is_none() && !is_virtual {
            add_pip_roots(given, &root, None, &mut found);
        }
    }
    found
}

/// Adds further package roots of a virtual environment that was created with `--system-site-packages`, in Python's
/// order.
fn add_base_python(given: &Given, environment: &Path, found: &mut Vec<Origin>) {
    if let Some(base) = included_home(environment).and_then(base_of_home) {
        add_pip_roots(given, &base, Some(environment), found);
        found.push(python(base, Some(environment)));
    }
}

/// Adds the roots where pip installs without --prefix: the user's directory and, on Debian, the directory for a Python
/// in /usr.
fn add_pip_roots(given: &Given, base: &Path, environment: Option<&Path>, found: &mut Vec<Origin>) {
    if let Some(user) = given.host.user_base(Os::Linux) {
        found.push(python(user, environment));
    }
    if base == given.host.system("/usr") {
        found.push(python(given.host.system("/usr/local"), environment));
    }
}

/// Returns the environment of the first `python3` on `PATH`, and whether it is a virtual environment. Scripts such as
/// pyenv's are never executed, and remain unresolved. In programs that they start, `PATH` contains the real
/// interpreter.
fn python_on_path(given: &Given) -> Option<(PathBuf, bool)> {
    let path = given.host.variable("PATH")?;
    let mut programs = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("python3"));
    // In a directory like /tmp, another user could have added packages next to the interpreter's directory.
    environment_of(&programs.find(|program| program.target_exists())?).filter(|(root, _)| !facts::is_like_tmp(root))
}

fn in_library_path(given: &Given) -> Vec<Candidate> {
    let dirs = library_path(&given.host).into_iter();
    let mut found: Vec<Candidate> = dirs.map(|dir| Candidate::new(dir, Origin::LibraryPath)).collect();
    found.extend_from_slice(&given.other_run_paths);
    found
}

/// Returns the directories that ld.so would search for a bare name after `LD_LIBRARY_PATH`.
fn by_ld_so(given: &Given) -> Vec<Candidate> {
    let mut found = Vec::new();
    for file in Cache::new(&given.host).files(Library::Graph.linux_name()) {
        if let Some(dir) = file.parent() {
            found.push(Candidate::new(dir, Origin::LdCache));
        }
    }
    for dir in distinct_default_dirs(&given.host) {
        found.push(Candidate::new(dir, Origin::LdDefault));
    }
    found
}

fn cuda_variables(given: &Given) -> Vec<Candidate> {
    let mut found = Vec::new();
    for name in CUDA_VARIABLES {
        let Some(root) = given.absolute(name) else { continue };
        for dir in CUDA_LIB_DIRS {
            found.push(Candidate::new(root.join(dir), Origin::CudaVariable(name.into())));
        }
    }
    found
}

fn well_known(given: &Given) -> Vec<Candidate> {
    let default_dirs = distinct_default_dirs(&given.host);
    let conda = (!given.host.is_secure_execution()).then_some(&WELL_KNOWN_CONDA);
    let dirs = WELL_KNOWN.iter().chain(conda).map(|dir| given.host.system(dir));
    let dirs = dirs.filter(|dir| !default_dirs.contains(dir));
    dirs.map(|dir| Candidate::new(dir, Origin::WellKnown)).collect()
}

/// Returns the environment of a Python interpreter, and whether it is a virtual environment. See
/// `python::environment_of`.
pub(super) fn environment_of(python: &Path) -> Option<(PathBuf, bool)> {
    let root = python.parent()?.parent()?;
    if root.join("pyvenv.cfg").target_exists() {
        return Some((root.to_owned(), true));
    }
    let program = canonicalize(python).ok()?;
    // Keep the original path if it refers to the same directory (such as /bin instead of /usr/bin).
    let real = program.parent()?.parent()?;
    let is_same = canonicalize(root).is_ok_and(|root| root == real);
    Some((if is_same { root.to_owned() } else { real.to_owned() }, false))
}

/// Returns the root of the Python with this program directory. On most systems, /bin is a link to /usr/bin.
pub(super) fn base_of_home(home: PathBuf) -> Option<PathBuf> {
    let mut base = canonicalize(home).ok()?;
    base.pop().then_some(base)
}

/// Returns the directories of cuDNN wheels, newest Python first, with the full wheel before the JIT-only wheel.
pub(super) fn wheels(root: &Path, origin: &Origin) -> Vec<Candidate> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64"] {
        // In most environments, lib64 is a link to lib.
        if lib == "lib64" && root.join(lib).is_link() {
            continue;
        }
        let dir = root.join(lib);
        if matches!(origin, Origin::VirtualEnvironment(_)) && is_denied(&dir.join(".")) {
            found.push(Candidate::new(dir, origin.clone()));
            continue;
        }
        let entries = facts::read_dir(dir).into_iter().flatten();
        let python = |entry: facts::DirEntry| {
            // Free-threaded Python versions have the suffix `t`, as in python3.14t.
            let name = entry.file_name();
            let rest = name.to_str()?.strip_prefix("python3")?;
            // Debian's `python3` directory contains packages for all versions.
            let is_common = rest.is_empty();
            let minor = if is_common { 0 } else { rest.strip_prefix('.')?.trim_end_matches('t').parse().ok()? };
            // A virtual environment uses only one of the Python versions on the system.
            let is_used = match origin {
                Origin::BasePython { environment, .. } => {
                    is_common || environment.join("lib").join(&name).leads_to_dir()
                }
                _ => true,
            };
            is_used.then(|| (minor, entry.path()))
        };
        // Insertion sort is sufficient for a few entries, because std's sort would noticeably increase the size of the
        // drop-in.
        let mut pythons: Vec<(u32, PathBuf)> = Vec::new();
        for python in entries.filter_map(python) {
            let index = pythons.partition_point(|other| *other > python);
            pythons.insert(index, python);
        }
        for (_, python) in pythons {
            // Debian's Python uses dist-packages instead.
            for packages in ["site-packages", "dist-packages"] {
                for product in ["cudnn", "cudnn_jit"] {
                    let dir = python.join(packages).join("nvidia").join(product).join("lib");
                    if dir.leads_to_dir() || is_denied(&dir) {
                        found.push(Candidate::new(dir, origin.clone()));
                    }
                }
            }
        }
    }
    found
}
