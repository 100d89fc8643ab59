//! Describes the files that a framework opens or misses.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cudnn_probe::ld_so::{self, Lookup, Resolution};
use cudnn_probe::{Version, dll_search};

/// What a framework opens.
#[derive(Clone, Debug, Default)]
pub struct Opens {
    /// Its libraries that need cuDNN, whether they are linked to it or open it by name.
    pub users: Vec<PathBuf>,
    /// The name by which they ask for it: `libcudnn.so.9`, or `libcudnn-74a4c495.so.9.1.0` for a copy in their package.
    pub name: Option<String>,
    /// The files of cuDNN that it would load: the shim `libcudnn.so.9` first, or the one that it contains under another
    /// name (`libcudnn-74a4c495.so.9.1.0`); then what that shim would open. Empty if it would find none.
    pub cudnn: Vec<Opened>,
    /// The libraries of CUDA that are loaded after its import and the first use of its cuDNN, by whatever rule. Empty for a
    /// framework that is built for Windows.
    pub cuda: Vec<PathBuf>,
    /// Names of libraries of CUDA and cuDNN that it needs and would not find: `libcublasLt.so.12`.
    pub missing: Vec<String>,
    /// The files of cuDNN that it would find and cannot use: truncated, or no library.
    pub damaged: Vec<Damaged>,
    /// Other files that ld.so would find for what it, or its cuDNN, needs or opens, and could not load: a truncated
    /// `libcublasLt.so.12` on `LD_LIBRARY_PATH`.
    pub damaged_others: Vec<Damaged>,
    /// Libraries besides those of CUDA, cuDNN and the driver that its libraries are linked to and that it would not find:
    /// of its package, or of the system.
    pub missing_libraries: Vec<MissingLibrary>,
    /// The directories in which its Python code searches for cuDNN and that have more files than were examined: it may
    /// find another cuDNN there, or one at all.
    pub half_searched: Vec<PathBuf>,
    /// The shim that it would load is this project's drop-in, which loads the installation that the loader selects:
    /// `cudnn` has its graph library, and no others.
    pub has_drop_in: bool,
    /// Nobody has examined a build of it for its system: nothing is known of what it opens.
    pub is_unexamined: bool,
    /// It needs no cuDNN, as far as its files show.
    pub needs_none: bool,
    /// It works without cuDNN, but for a part of its functions.
    pub is_optional: bool,
}

/// A library that ld.so would not find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLibrary {
    /// Its name: `libc10.so`.
    pub name: String,
    /// The library that is linked to it.
    pub needed_by: PathBuf,
}

/// A file that would be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The name by which it was asked for: `libcudnn_graph.so.9`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// How it is found.
    pub by: SearchRule,
    /// Its release, if the file states it. NVIDIA's shim for cuDNN 9 does not: for it, that of the graph library beside
    /// it. The program sees the release of the graph library that is loaded.
    pub version: Option<Version>,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// The reason: "is truncated".
    pub reason: String,
    /// How ld.so would find it, if it would: it passes over some damaged files.
    pub rule: Option<ld_so::Rule>,
}

impl Damaged {
    /// The file that ld.so finds for a name and cannot load.
    pub(super) fn of(lookup: &Lookup) -> Option<Self> {
        let Resolution::Unusable { path, rule, error } = &lookup.resolution else { return None };
        Some(Damaged { path: path.clone(), reason: error.to_string(), rule: Some(rule.clone()) })
    }
}

/// How a file is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchRule {
    /// The framework's Python code opens it by its path.
    Python,
    /// The framework's Python code searches the directory in this environment variable.
    Variable(&'static str),
    /// By ld.so's rule.
    LdSo(ld_so::Rule),
    /// By Windows' rule.
    Windows(dll_search::Rule),
    /// This project's drop-in selects its installation.
    DropIn,
}

impl Opens {
    /// The release that the framework sees: `cudnnGetVersion` of the shim asks the graph library that it opens.
    pub fn version(&self) -> Option<Version> {
        let graph = self
            .cudnn
            .iter()
            .find(|opened| opened.name.starts_with("libcudnn_graph.") || opened.name == "cudnn_graph64_9.dll");
        graph.or(self.cudnn.first())?.version
    }

    /// Keeps the first entry for each file and name.
    pub(super) fn remove_duplicates(&mut self) {
        fn retain<T>(list: &mut Vec<T>, key: impl Fn(&T) -> String) {
            let mut seen = HashSet::new();
            list.retain(|one| seen.insert(key(one)));
        }
        let text = |path: &Path| format!("{path:?}");
        retain(&mut self.cudnn, |opened| text(&opened.path));
        retain(&mut self.missing, |name| name.to_ascii_lowercase());
        retain(&mut self.damaged, |damaged| text(&damaged.path));
        retain(&mut self.damaged_others, |damaged| text(&damaged.path));
        retain(&mut self.missing_libraries, |missing_libraries| missing_libraries.name.clone());
    }
}
