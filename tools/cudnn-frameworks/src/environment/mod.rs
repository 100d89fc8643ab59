//! Finds the directories from which the Python of an environment imports packages, as Python's `site` does at its start.

pub(crate) mod layout;

use cudnn_probe::facts::{self, PathFacts, entries_named};
use std::path::{Path, PathBuf};

use cudnn_probe::internal::base_python;
use cudnn_probe::{Host, Origin, Os, Search, read_bounded};

use crate::package::unreadable::Unreadable;
use layout::{Python, os_of, site_dirs, user_dir};

/// The most bytes of a `.pth` file, and lines with paths in all of an environment.
const MAX_PATH_FILE_LEN: u64 = 1 << 20;
const MAX_PATH_LINES: usize = 1_000;

/// A Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Its root: of a virtual environment, a conda environment, or of a Python (`/usr`).
    pub root: PathBuf,
    /// The directories that Python imports packages from, in its order (`sys.path`, without the standard library): those
    /// of `PYTHONPATH`, of the environment, of the user, then of the base Python if the environment includes it, with the
    /// directories that `.pth` files add behind each.
    pub import_dirs: Vec<PathBuf>,
    /// Its Python: `3.12`. `None` if no directory states it.
    pub python: Option<(u32, u32)>,
    /// The system that its Python runs on: that of this program, or Windows for an environment on one of its disks.
    pub os: Os,
    /// Files that name import directories and cannot be read.
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Environment {
    /// The environment with this root, or the directory of packages at this path (`pip install --target`), as its Python
    /// sees it when it is started on this host.
    pub fn at(root: &Path, host: &Host) -> Self {
        let root = facts::absolute(root).unwrap_or_else(|_| root.to_owned());
        let os = os_of(&root);
        let python = Python::at(&root, os);
        Environment::with_python(root, python, os, host)
    }

    /// The environment of this Python, with this root: a root such as `/usr` can have several.
    pub fn of_python(program: &Path, root: &Path, host: &Host) -> Self {
        let os = os_of(root);
        let python = Python::of_program(program, os).or_else(|| Python::at(root, os));
        Environment::with_python(root.to_owned(), python, os, host)
    }

    fn with_python(root: PathBuf, python: Option<Python>, os: Os, host: &Host) -> Self {
        // The variables of this system mean nothing to a Python of another.
        let variable = |name: &str| host.variable(name).filter(|_| os == Os::HOST);
        let mut dirs = ImportDirs::default();
        if let Some(path) = variable("PYTHONPATH") {
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).for_each(|dir| _ = dirs.add(dir));
        }
        let python_dirs = |root: &Path| site_dirs(root, python.as_ref(), os);
        let uses_user_dir = os == Os::HOST && variable("PYTHONNOUSERSITE").is_none();
        let user_dir = python.as_ref().filter(|_| uses_user_dir).and_then(|python| user_dir(python, host, os));
        let own = python_dirs(&root);
        if root.join("pyvenv.cfg").leads_to_file() {
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

    /// Whether it has a Python, or what states one.
    pub(crate) fn has_python(&self) -> bool {
        self.python.is_some() || layout::has_part(&self.root, self.os)
    }

    /// The environments that a `python3` may belong to which a person starts on the host of this search, the most
    /// specific first: the active virtual environment, the active conda environment, the one of the `python3` on `PATH`,
    /// the system's. The first has what `PYTHONPATH` leads to, the others have not: it is for the Python that is started.
    pub fn active(search: &Search) -> Vec<Self> {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut has_python = false;
        for origin in search.environments() {
            match origin {
                Origin::VirtualEnvironment(root) | Origin::Conda(root) => roots.push(root),
                // The first is the Python's; those after it are where pip installs, and its Python imports them.
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

/// Import directories, each once.
#[derive(Default)]
struct ImportDirs {
    dirs: Vec<PathBuf>,
    known: Vec<PathBuf>,
    unreadable: Vec<Unreadable>,
    path_lines: usize,
}

impl ImportDirs {
    /// Adds an existing directory, unless it is one of them. Python ignores its `.pth` files.
    fn add(&mut self, dir: PathBuf) -> bool {
        let Ok(real) = cudnn_probe::canonicalize(&dir) else { return false };
        let is_new = real.leads_to_dir() && !self.known.contains(&real);
        if is_new {
            self.known.push(real);
            self.dirs.push(dir);
        }
        is_new
    }

    /// Adds an existing directory, and those that its `.pth` files name, one a line. Lines of code (`import ...`) are not
    /// run, and what they would add is not seen.
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
                        "is one of several .pth files with more than {MAX_PATH_LINES} lines: the rest is not read"
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
