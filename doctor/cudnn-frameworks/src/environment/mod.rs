//! Finds the directories from which an environment's Python imports packages, like Python's `site` module.

pub(crate) mod layout;

use cudnn_probe::facts::{self, PathFacts, entries_named};
use std::path::{Path, PathBuf};

use cudnn_probe::python::base_python;
use cudnn_probe::{Host, Origin, Os, Search, read_bounded};

use crate::package::unreadable::Unreadable;
use layout::{Python, is_virtual, os_of, site_dirs, user_site};

/// The maximum size of a `.pth` file in bytes, and the maximum number of paths in all of them.
const MAX_PATH_FILE_LEN: u64 = 1 << 20;
const MAX_PATH_LINES: usize = 1_000;

/// A Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The root of a virtual environment, a conda environment, or a Python (`/usr`).
    pub root: PathBuf,
    /// The directories from which Python imports packages, in the order of `sys.path` without the standard library:
    /// `PYTHONPATH`, the environment, the user's packages, and the base Python if it is included. Directories in a
    /// `.pth` file follow the directory with that file.
    pub import_dirs: Vec<PathBuf>,
    /// The Python version: `3.12`. `None` if no directory name contains it.
    pub python: Option<(u32, u32)>,
    /// The operating system of the environment's Python, which is Windows for an environment on a Windows disk.
    pub os: Os,
    /// Unreadable files with import directories.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Environment {
    /// Reads the environment at this root, or a package directory (`pip install --target`), as a Python on this host
    /// sees it.
    pub fn at(root: &Path, host: &Host) -> Self {
        let root = facts::absolute(root).unwrap_or_else(|_| root.to_owned());
        let os = os_of(&root);
        let python = Python::at(&root, os);
        Environment::with_python(root, python, os, host)
    }

    /// Reads the environment of this Python. A root such as `/usr` can contain several Pythons.
    pub fn from_python(program: &Path, root: &Path, host: &Host) -> Self {
        let os = os_of(root);
        let python = Python::from_program(program, os).or_else(|| Python::at(root, os));
        Environment::with_python(root.to_owned(), python, os, host)
    }

    fn with_python(root: PathBuf, python: Option<Python>, os: Os, host: &Host) -> Self {
        // Only a Python for this system sees this system's variables.
        let variable = |name: &str| host.variable(name).filter(|_| os == Os::HOST);
        let mut dirs = ImportDirs::default();
        if let Some(path) = variable("PYTHONPATH") {
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).for_each(|dir| _ = dirs.add(dir));
        }
        let python_dirs = |root: &Path| site_dirs(root, python.as_ref(), os);
        let uses_user_dir = os == Os::HOST && variable("PYTHONNOUSERSITE").is_none();
        let user_dir =
            python.as_ref().filter(|_| uses_user_dir).and_then(|python| user_site(&python.dir_name, host, os));
        let own = python_dirs(&root);
        if is_virtual(&root) {
            own.into_iter().for_each(|dir| dirs.add_site(dir));
            if let Some(base) = base_python(&root).filter(|_| os == Os::HOST) {
                user_dir.into_iter().chain(python_dirs(&base)).for_each(|dir| dirs.add_site(dir));
            }
        } else if own.iter().any(|dir| dir.leads_to_dir()) {
            user_dir.into_iter().chain(own).for_each(|dir| dirs.add_site(dir));
        } else {
            dirs.add(root.clone());
        }
        let python = python.map(|python| (3, python.minor));
        Environment { root, import_dirs: dirs.dirs, python, os, unreadable: dirs.unreadable }
    }

    pub(crate) fn has_python(&self) -> bool {
        self.python.is_some() || layout::has_part(&self.root, self.os)
    }

    /// Returns the environments of `python3` on the host of this search, from most to least specific: the active
    /// virtual environment, the active conda environment, the one of `python3` on `PATH`, and the system's.
    /// `PYTHONPATH` applies only to the first, because that Python is started.
    pub fn active(search: &Search) -> Vec<Self> {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut has_python = false;
        for origin in search.environments() {
            match origin {
                Origin::VirtualEnvironment(root) | Origin::Conda(root) => roots.push(root),
                // The first root belongs to the Python, and the others to packages that pip installs for it.
                Origin::Python(root) if !has_python => {
                    has_python = true;
                    roots.push(root);
                }
                _ => {}
            }
        }
        let has_packages = |root: &PathBuf| {
            site_dirs(root, Python::at(root, Os::HOST).as_ref(), Os::HOST).iter().any(|dir| dir.leads_to_dir())
        };
        let system = (Os::HOST != Os::Windows).then(|| search.host().system("/usr"));
        roots.extend(system.filter(has_packages));
        let mut known: Vec<PathBuf> = Vec::new();
        roots.retain(|root| match cudnn_probe::canonicalize(root) {
            Ok(real) if real.leads_to_dir() && !known.contains(&real) => {
                known.push(real);
                true
            }
            _ => false,
        });
        let without_path = search.host().clone().env("PYTHONPATH", "");
        let host = |index: usize| if index == 0 { search.host() } else { &without_path };
        roots.iter().enumerate().map(|(index, root)| Environment::at(root, host(index))).collect()
    }
}

#[derive(Default)]
struct ImportDirs {
    dirs: Vec<PathBuf>,
    known: Vec<PathBuf>,
    unreadable: Vec<Unreadable>,
    path_lines: usize,
}

impl ImportDirs {
    /// Adds an existing directory, but not the directories in `.pth` files. Returns whether it is new.
    fn add(&mut self, dir: PathBuf) -> bool {
        let Ok(real) = cudnn_probe::canonicalize(&dir) else { return false };
        let is_new = real.leads_to_dir() && !self.known.contains(&real);
        if is_new {
            self.known.push(real);
            self.dirs.push(dir);
        }
        is_new
    }

    /// Adds an existing directory and the directories in `.pth` files there. Code in these files (`import ...`) is
    /// skipped.
    fn add_site(&mut self, dir: PathBuf) {
        if !self.add(dir.clone()) {
            return;
        }
        for file in entries_named(&dir, "*.pth", |name| name.ends_with(".pth") && !name.starts_with('.')) {
            let text = match read_bounded(&file, MAX_PATH_FILE_LEN) {
                Ok(text) => text,
                Err(error) => {
                    self.unreadable.push(Unreadable::new(file, error.to_string(), None));
                    continue;
                }
            };
            let text = String::from_utf8_lossy(&text);
            let is_code = |line: &str| line.starts_with("import ") || line.starts_with("import\t");
            let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim_end);
            for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line)) {
                if self.path_lines == MAX_PATH_LINES {
                    let reason = format!(
                        "is one of several .pth files with more than {MAX_PATH_LINES} lines: the rest is ignored"
                    );
                    self.unreadable.push(Unreadable::new(file, reason, None));
                    return;
                }
                self.path_lines += 1;
                self.add(dir.join(line));
            }
        }
    }
}
