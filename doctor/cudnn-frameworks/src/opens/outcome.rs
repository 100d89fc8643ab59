//! The files that a framework opens, and the files that are missing.

use cudnn_probe::ld_so::{self, Lookup, Resolution};
use cudnn_probe::{Host, Library, Os, Requirements, Search, Version, dll_search, select};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::known::Known;
use crate::files::file_name;
use crate::library_names::cudnn_library;

/// The files that a framework opens.
#[derive(Clone, Debug, Default)]
pub struct Opens {
    /// The framework's libraries that are linked to cuDNN or open it by name.
    pub users: Vec<PathBuf>,
    /// The requested name of cuDNN: `libcudnn.so.9`, or `libcudnn-74a4c495.so.9.1.0` for a copy in the package.
    pub name: Option<String>,
    /// The cuDNN files that would be loaded: the shim, possibly a bundled copy, and then the files that the shim opens.
    /// Empty if cuDNN is not found.
    pub cudnn: Vec<OpenedFile>,
    /// The CUDA libraries that are loaded after the import and the first use of cuDNN. Empty for Windows.
    pub cuda: Vec<PathBuf>,
    /// Names of required CUDA and cuDNN libraries that would not be found: `libcublasLt.so.12`.
    pub missing: Vec<String>,
    /// cuDNN files that would be found but are unusable, for example because they are truncated.
    pub damaged: Vec<Damaged>,
    /// Other required files that ld.so would find but could not load, such as a truncated `libcublasLt.so.12`.
    pub damaged_others: Vec<Damaged>,
    /// Missing libraries of the package or the system, which the framework's libraries are linked to. Excludes CUDA,
    /// cuDNN and the driver.
    pub missing_libraries: Vec<MissingLibrary>,
    /// Directories with more files than were examined, where the Python code may find a different cuDNN.
    pub half_searched: Vec<PathBuf>,
    /// The shim is this project's drop-in. `cudnn` then contains only the graph library of the installation that it
    /// loads.
    pub has_drop_in: bool,
    /// The opened files are unknown, because no build for this system has been examined.
    pub is_unexamined: bool,
    /// The files show that the framework works without cuDNN.
    pub needs_none: bool,
    /// Only some functions of the framework need cuDNN.
    pub is_optional: bool,
}

/// A library that ld.so would not find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLibrary {
    /// The name: `libc10.so`.
    pub name: String,
    /// The library that is linked to it.
    pub needed_by: PathBuf,
}

/// A file that would be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedFile {
    /// The requested name: `libcudnn_graph.so.9`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// How the file is found.
    pub by: SearchRule,
    /// The release, if the file contains it. For NVIDIA's shim of cuDNN 9, this is the release of graph next to it,
    /// although the program sees the release of the loaded graph library.
    pub version: Option<Version>,
}

/// An unusable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// The reason: "is truncated".
    pub reason: String,
    /// How ld.so would find the file. `None` if ld.so would skip it.
    pub rule: Option<ld_so::Rule>,
}

impl Damaged {
    /// Returns the file that ld.so finds for a name but cannot load.
    pub(super) fn of(lookup: &Lookup) -> Option<Self> {
        let Resolution::Unusable { path, rule, error } = &lookup.resolution else { return None };
        Some(Damaged { path: path.clone(), reason: error.to_string(), rule: Some(rule.clone()) })
    }
}

/// How a file is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchRule {
    /// The framework's Python code opens the file by path.
    Python,
    /// The framework's Python code searches the directory in this environment variable.
    Variable(&'static str),
    /// ld.so finds the file with this rule.
    LdSo(ld_so::Rule),
    /// Windows finds the file with this rule.
    Windows(dll_search::Rule),
    /// This project's drop-in selects the installation.
    DropIn,
}

impl Opens {
    /// Returns the release that the framework sees, because the shim calls the loaded graph library.
    pub fn version(&self) -> Option<Version> {
        let graph = self
            .cudnn
            .iter()
            .find(|opened| opened.name.starts_with("libcudnn_graph.") || opened.name == "cudnn_graph64_9.dll");
        graph.or(self.cudnn.first())?.version
    }

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

/// The part of cuDNN that a framework uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// All libraries, eventually.
    All,
    /// The graph API, for example for a convolution before another framework is imported.
    Graph,
}

impl Use {
    /// Returns the libraries that the cuDNN 9 shim opens, and the libraries that graph opens afterwards.
    pub(super) fn libraries(self) -> (&'static [Library], &'static [Library]) {
        match self {
            Use::All => {
                const ALL: &[Library] = &[Library::Graph, Library::Ops, Library::Cnn, Library::Adv, Library::Ext];
                (ALL, Library::OPENED_BY_GRAPH)
            }
            Use::Graph => (&[Library::Graph, Library::Ops], &[]),
        }
    }
}

impl Opens {
    /// Adds the installation that the loader selects if the first file in `cudnn` is the drop-in.
    pub(super) fn add_selected(&mut self, host: Host, os: Os) {
        self.has_drop_in = true;
        let Some(drop_in) = self.cudnn.first_mut() else { return };
        // The drop-in may load another installation than the one next to it.
        drop_in.version = None;
        let name = Library::Graph.name_on(os).to_owned();
        let search = Search::new(host).add_adjacent(drop_in.path.parent().unwrap_or(Path::new("")));
        match select(&search, &Requirements::default()).installation {
            Some(selected) => {
                let (path, version) = (selected.path(Library::Graph), Some(selected.version));
                self.cudnn.insert(1, OpenedFile { name, path, by: SearchRule::DropIn, version });
            }
            None => self.missing.push(name),
        }
    }

    pub(super) fn add_damage(&mut self, known: &Known) {
        self.damaged.extend(self.cudnn.iter().filter_map(|opened| damage(&opened.path, known)));
    }
}

pub(super) fn damage(file: &Path, known: &Known) -> Option<Damaged> {
    let reason = known.identity(file, cudnn_library(file_name(file))?).err()?;
    Some(Damaged { path: file.to_owned(), reason, rule: None })
}
