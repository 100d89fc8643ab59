//! Searches below a directory, and lists environments, for tools.

use std::path::{Path, PathBuf};

use cudnn_os::files::below;

use crate::facts;
use crate::library::Library;
use crate::platform::{CUDA_LIB_DIRS, Os};

use super::candidates::Search;
use super::origin::{Candidate, Origin};
use super::python::is_left_by_pip;
use super::{linux, windows};

/// Subdirectories to search below the root of an archive, a toolkit, a Python or conda environment on Windows, or
/// manually unpacked wheels (`pip install --target`).
const SUBDIRECTORIES: [&str; 6] = [
    "bin",
    "Lib/site-packages/nvidia/cudnn/bin",
    "Library/bin",
    "nvidia/cudnn/lib",
    "nvidia/cudnn_jit/lib",
    "nvidia/cudnn/bin",
];

impl Search {
    /// Returns the library directories below a root, such as a Python or conda environment, a CUDA toolkit, an unpacked
    /// archive or an unpacked wheel. They are followed by other subdirectories that contain cuDNN, within limits of
    /// depth and number. Symbolic links and directories named `include` are ignored.
    #[must_use]
    pub fn under_root(&self, root: &Path) -> Vec<Candidate> {
        self.look_under_root(root).candidates
    }

    /// Like [`under_root`](Search::under_root), but also returns the directories that were skipped because of the
    /// limits.
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

    /// Returns the Python and conda environments that the search includes, whether or not they contain cuDNN.
    #[must_use]
    pub fn environments(&self) -> Vec<Origin> {
        match Os::HOST {
            Os::Linux => linux::environments(self.given()),
            Os::Windows => windows::environments(self.given()),
        }
    }
}

/// Returns the directories of cuDNN wheels below the root of an environment. Newer Python versions come first, and the
/// full wheel comes before the JIT-only wheel.
fn wheels(root: &Path, origin: &Origin) -> Vec<Candidate> {
    match Os::HOST {
        Os::Linux => linux::wheels(root, origin),
        Os::Windows => windows::wheels(root, origin),
    }
}

/// The result of a search below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UnderRoot {
    /// The directories in order.
    pub candidates: Vec<Candidate>,
    /// The directories that were not searched, including everything below them. They were too deep, exceeded the
    /// maximum number, or were not readable.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub unsearched: Vec<PathBuf>,
}

/// A breadth-first search below a directory.
#[derive(Default)]
struct Walk {
    /// The directories that contain a cuDNN library, nearest first.
    with_cudnn: Vec<PathBuf>,
    unsearched: Vec<PathBuf>,
}

impl Walk {
    /// The maximum number of levels below the root and below every environment. The libraries of a wheel are six levels
    /// below the root of an environment.
    const MAX_DEPTH: usize = 9;
    const MAX_DIRS: usize = 50_000;
    /// Names of frequent directories without libraries: compiled Python, and headers.
    const WITHOUT_LIBRARIES: [&str; 2] = ["__pycache__", "include"];

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

    /// Reads a directory and adds the subdirectories to the next level.
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
        for entry in entries {
            let name = entry.file_name();
            has_cudnn |= name.to_str().is_some_and(is_cudnn);
            is_environment |= name.to_str().is_some_and(is_mark);
            if !Self::WITHOUT_LIBRARIES.iter().any(|other| name == *other)
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
                && !is_left_by_pip(&entry.path())
            {
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
