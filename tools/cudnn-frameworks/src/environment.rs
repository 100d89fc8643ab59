//! A Python environment: the directories from which its Python imports packages. Follows what Python's `site` does at
//! its start. Knows nothing of packages.

mod linux;
mod path_files;
mod windows;

use std::path::{Path, PathBuf};

use cudnn_probe::{Host, Origin, Os, Search, base_python, read_bounded};

use crate::unreadable::Unreadable;

/// The most entries that are read of a directory with Python's directories, such as `/usr/lib`.
const MAX_ENTRIES: usize = 20_000;
/// The most bytes of `pyvenv.cfg`.
const MAX_SETTINGS_LEN: u64 = 64 << 10;

/// A Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The layout of environments on a system.
struct Layout {
    /// What shows that a directory is an environment.
    parts: &'static [&'static str],
    /// The Python of the environment at this root: the one that its settings or its program state, or else the newest that
    /// has a directory there.
    python: fn(&Path) -> Option<Python>,
    /// The Python that this program is, by its name or what is beside it.
    of_program: fn(&Path) -> Option<Python>,
    /// The directories for packages below the root of a Python or of an environment, in Python's order, whether they
    /// exist or not.
    site_dirs: fn(&Path, Option<&Python>) -> Vec<PathBuf>,
    /// The directory for the user's packages (`pip install --user`).
    user_dir: fn(&Python, &Host) -> Option<PathBuf>,
    /// The root of the system's Python, if it has one.
    system: Option<&'static str>,
}

/// The layout on a system.
fn layout(os: Os) -> &'static Layout {
    match os {
        Os::Windows => &windows::LAYOUT,
        _ => &linux::LAYOUT,
    }
}

/// The system of the environment at this root. On Linux, one of Windows can lie on a disk of that (WSL: `/mnt/c`).
fn os_of(root: &Path) -> Os {
    let is_of_windows = || {
        root.join("Lib").join("site-packages").is_dir()
            && ["Scripts", "python.exe"].iter().any(|part| root.join(part).exists())
    };
    if is_of_windows() { Os::Windows } else { Os::HOST }
}

/// The Python of an environment.
struct Python {
    minor: u32,
    /// The name of its directory: `python3.12`, or `python3.13t` without a global lock; `Python312` on Windows.
    dir_name: String,
}

/// The minor version of an environment's Python, from its settings.
fn stated_minor(root: &Path) -> Option<u32> {
    let settings = read_bounded(&root.join("pyvenv.cfg"), MAX_SETTINGS_LEN).unwrap_or_default();
    let minor = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let is_version = matches!(key.trim(), "version" | "version_info");
        is_version.then(|| value.trim().strip_prefix("3.")?.split('.').next()?.parse().ok())?
    };
    String::from_utf8_lossy(&settings).lines().find_map(minor)
}

impl Environment {
    /// The environment with this root, or the directory of packages at this path (`pip install --target`), as its Python
    /// sees it when it is started on this host.
    #[must_use]
    pub fn at(root: &Path, host: &Host) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let os = os_of(&root);
        let python = (layout(os).python)(&root);
        Environment::with_python(root, python, os, host)
    }

    /// The environment of this Python, with this root: a root such as `/usr` can have several.
    #[must_use]
    pub fn of_python(program: &Path, root: &Path, host: &Host) -> Self {
        let os = os_of(root);
        let of_program = (layout(os).of_program)(program);
        Environment::with_python(root.to_owned(), of_program.or_else(|| (layout(os).python)(root)), os, host)
    }

    fn with_python(root: PathBuf, python: Option<Python>, os: Os, host: &Host) -> Self {
        let layout = layout(os);
        // The variables of this system mean nothing to a Python of another.
        let is_foreign = os != Os::HOST;
        let is_virtual = root.join("pyvenv.cfg").is_file();
        let base = if is_virtual && !is_foreign { base_python(&root) } else { None };
        let mut dirs = ImportDirs::default();
        if let Some(path) = host.variable("PYTHONPATH").filter(|_| !is_foreign) {
            std::env::split_paths(&path).filter(|dir| dir.is_absolute()).for_each(|dir| dirs.add(dir));
        }
        let site_dirs = (layout.site_dirs)(&root, python.as_ref());
        let uses_user_dir = !is_foreign && host.variable("PYTHONNOUSERSITE").is_none();
        let user_dir = python.as_ref().filter(|_| uses_user_dir).and_then(|python| (layout.user_dir)(python, host));
        if is_virtual {
            site_dirs.into_iter().for_each(|dir| dirs.add_site(dir));
            if let Some(base) = base {
                user_dir.into_iter().for_each(|dir| dirs.add_site(dir));
                (layout.site_dirs)(&base, python.as_ref()).into_iter().for_each(|dir| dirs.add_site(dir));
            }
        } else if site_dirs.iter().any(|dir| dir.is_dir()) {
            user_dir.into_iter().chain(site_dirs).for_each(|dir| dirs.add_site(dir));
        } else {
            dirs.add(root.clone());
        }
        let version = python.map(|python| (3, python.minor));
        Environment { root, import_dirs: dirs.dirs, python: version, os, unreadable: dirs.unreadable }
    }

    /// Whether it has a Python, or what states one.
    pub(crate) fn has_python(&self) -> bool {
        self.python.is_some() || layout(self.os).parts.iter().any(|part| self.root.join(part).exists())
    }

    /// The environments that a `python3` may belong to which a person starts on the host of this search, the most
    /// specific first: the active virtual environment, the active conda environment, the one of the `python3` on `PATH`,
    /// the system's. The first has what `PYTHONPATH` leads to, the others have not: it is for the Python that is started.
    #[must_use]
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
        let layout = layout(Os::HOST);
        let system = layout.system.map(|root| search.host().system(root));
        let has_packages =
            |root: &PathBuf| (layout.site_dirs)(root, (layout.python)(root).as_ref()).iter().any(|dir| dir.is_dir());
        roots.extend(system.filter(has_packages));
        let mut known: Vec<PathBuf> = Vec::new();
        roots.retain(|root| match cudnn_probe::canonicalize(root) {
            Ok(real) if real.is_dir() && !known.contains(&real) => {
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
    /// Adds an existing directory. Python ignores its `.pth` files.
    fn add(&mut self, dir: PathBuf) {
        let Ok(real) = cudnn_probe::canonicalize(&dir) else { return };
        if real.is_dir() && !self.known.contains(&real) {
            self.known.push(real);
            self.dirs.push(dir);
        }
    }

    /// Adds an existing directory, and those that its `.pth` files name.
    fn add_site(&mut self, dir: PathBuf) {
        let before = self.dirs.len();
        self.add(dir.clone());
        if self.dirs.len() > before {
            let named = path_files::read(&dir, &mut self.path_lines, &mut self.unreadable);
            named.into_iter().for_each(|dir| self.add(dir));
        }
    }
}
