//! A Python environment: the directories from which its Python imports packages. Knows nothing of packages.

use std::path::{Path, PathBuf};

/// A Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// Its root: of a virtual environment, a conda environment, or of a Python (`/usr`).
    pub root: PathBuf,
    /// The directories that Python imports packages from, in its order (`sys.path`, without the standard library): those
    /// of the environment, then those of the base Python if the environment includes them, with the existing directories
    /// that `.pth` files add behind each.
    pub import_dirs: Vec<PathBuf>,
    /// Its Python: `3.12`. `None` if no directory states it.
    pub python: Option<(u32, u32)>,
}

impl Environment {
    /// The active environments: the most specific first.
    #[must_use]
    pub fn active(search: &cudnn_probe::Search) -> Vec<Environment> {
        search.environments().iter().filter_map(|origin| Some(Environment::at(origin.root()?))).collect()
    }

    /// The environment with this root.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Environment { root: root.to_owned(), import_dirs: Vec::new(), python: None }
    }
}
