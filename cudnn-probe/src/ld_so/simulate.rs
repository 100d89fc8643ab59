//! Simulates which files ld.so would load for a program or library, based on the rules of glibc.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::facts::{PathFacts, is_setid};

use crate::error::ProbeError;
use crate::host::Host;
use crate::image::{Links, links};

use super::known_files::KnownFiles;
use super::paths::SearchPath;
use super::rule::Rule;
use super::tokens;

/// Limits for objects, requested names, searched names, and run path directories. Malicious files could request
/// millions.
const MAX_OBJECTS: usize = 4096;
const MAX_LOOKUPS: usize = 1 << 16;
const MAX_SEARCHES: usize = 4096;
const MAX_DIRS: usize = 1 << 18;

/// The result of looking up a name.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Resolution {
    /// ld.so loads this file.
    Found {
        /// The path that ld.so would use.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        path: PathBuf,
        /// The rule that selected the file.
        rule: Rule,
    },
    /// ld.so finds no file.
    Missing,
    /// ld.so finds this file, fails to load it, and stops.
    Unusable {
        /// The file.
        #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
        path: PathBuf,
        /// The rule that selected the file.
        rule: Rule,
        /// The reason.
        error: ProbeError,
    },
}

/// A requested name and the result of the search.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Lookup {
    /// The name, such as `libcudnn_graph.so.9`.
    pub name: String,
    /// The requesting object.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub requested_by: PathBuf,
    /// The result.
    pub resolution: Resolution,
}

/// A program or library that ld.so would load.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Object {
    /// The path that ld.so would use.
    #[cfg_attr(feature = "serde", serde(with = "crate::facts::Portable"))]
    pub path: PathBuf,
    /// The index of the object that caused this one to be loaded.
    loader: Option<usize>,
    links: Arc<Links>,
    /// The directories of RPATH and RUNPATH, computed on demand.
    #[cfg_attr(feature = "serde", serde(skip))]
    rpath_dirs: OnceCell<Vec<PathBuf>>,
    #[cfg_attr(feature = "serde", serde(skip))]
    runpath_dirs: OnceCell<Vec<PathBuf>>,
}

impl Object {
    fn new(path: PathBuf, loader: Option<usize>, links: Arc<Links>) -> Self {
        Object { path, loader, links, rpath_dirs: OnceCell::new(), runpath_dirs: OnceCell::new() }
    }

    fn copy(&self) -> Self {
        Object {
            path: self.path.clone(),
            loader: self.loader,
            links: self.links.clone(),
            rpath_dirs: self.rpath_dirs.clone(),
            runpath_dirs: self.runpath_dirs.clone(),
        }
    }

    /// Returns the names of required libraries (`DT_NEEDED`).
    #[must_use]
    pub fn needed(&self) -> &[String] {
        &self.links.needed
    }

    /// Returns the directory of the file (`$ORIGIN`).
    fn origin(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

/// Returns the names of the libraries that a library or program needs (`DT_NEEDED`).
///
/// # Errors
/// Returns an error if the file is unsuitable for this machine.
pub fn needed(file: &Path) -> Result<Vec<String>, ProbeError> {
    Ok(links(file)?.needed)
}

/// Returns the directories of a library's run path, where ld.so searches for dependencies. The run path is
/// `DT_RUNPATH`, or otherwise `DT_RPATH`.
///
/// # Errors
/// Returns an error if the file is unsuitable for this machine.
pub fn run_path(file: &Path, host: &Host) -> Result<Vec<PathBuf>, ProbeError> {
    let Links { rpath, runpath, .. } = links(file)?;
    let origin = file.parent().unwrap_or(Path::new("/"));
    let run_path = runpath.or(rpath);
    Ok(run_path.map(|run_path| tokens::run_path_dirs(host, run_path.as_ref(), origin)).unwrap_or_default())
}

/// Returns whether the run path of a file contains this directory, which need not exist. Links to directories are not
/// resolved before `..`.
#[must_use]
pub fn run_path_contains(file: &Path, dir: &Path, host: &Host) -> bool {
    run_path(file, host).is_ok_and(|dirs| dirs.iter().any(|searched| tokens::normalize(searched) == dir))
}

/// The files that ld.so would load for a program or library.
///
/// ```no_run
/// use cudnn_probe::{Host, ld_so::{Resolution, Simulation}};
/// let simulation = Simulation::new("/usr/bin/python3".as_ref(), &Host::current())?;
/// for lookup in simulation.lookups() {
///     match &lookup.resolution {
///         Resolution::Found { path, rule } => println!("{} => {} ({rule})", lookup.name, path.display()),
///         Resolution::Unusable { path, error, .. } => println!("{} => {} {error}", lookup.name, path.display()),
///         _ => println!("{} => not found", lookup.name),
///     }
/// }
/// # Ok::<(), cudnn_probe::ProbeError>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    host: Host,
    files: KnownFiles,
    search_path: Arc<SearchPath>,
    objects: Vec<Object>,
    /// The object for each name that ld.so recognizes.
    by_name: HashMap<String, usize>,
    /// The object for each file, with symbolic links resolved.
    by_file: HashMap<PathBuf, usize>,
    lookups: Vec<Lookup>,
    /// The number of name searches so far.
    searches: usize,
    /// The number of run path directories searched so far.
    dirs: Cell<usize>,
}

impl Simulation {
    /// Simulates the start of this program. A library is treated as if a program without libraries or run paths opened
    /// it.
    ///
    /// # Errors
    /// Returns an error if the file itself is unsuitable.
    pub fn new(file: &Path, host: &Host) -> Result<Self, ProbeError> {
        Simulation::with_files(file, host, &KnownFiles::new())
    }

    /// Like [`Simulation::new`], but uses a cache that other simulations share.
    ///
    /// # Errors
    /// Returns an error if the file itself is unsuitable.
    pub fn with_files(file: &Path, host: &Host, files: &KnownFiles) -> Result<Self, ProbeError> {
        let links = files.links(file)?;
        let path = if links.soname.is_some() {
            crate::facts::absolute(file).unwrap_or_else(|_| file.to_owned())
        } else {
            // The kernel resolves symbolic links in the program path before it starts ld.so.
            files.canonical(file).unwrap_or_else(|| file.to_owned())
        };
        // ld.so ignores environment variables for setuid programs.
        let host = if is_setid(file) { host.clone().secure_execution(true) } else { host.clone() };
        Ok(Simulation::start(path, links, host, files))
    }

    /// Simulates a program at this path that has no dependencies or run path. Use it for a program that cannot be read.
    #[must_use]
    pub fn without_program(path: &Path, host: &Host, files: &KnownFiles) -> Self {
        Simulation::start(path.to_owned(), Arc::default(), host.clone(), files)
    }

    fn start(path: PathBuf, links: Arc<Links>, host: Host, files: &KnownFiles) -> Self {
        let mut simulation = Simulation {
            search_path: Arc::new(SearchPath::from_program(&host, &path)),
            host,
            files: files.clone(),
            by_name: links.soname.iter().map(|soname| (soname.clone(), 0)).collect(),
            by_file: files.canonical(&path).into_iter().map(|file| (file, 0)).collect(),
            objects: vec![Object::new(path, None, links)],
            lookups: Vec::new(),
            searches: 0,
            dirs: Cell::new(0),
        };
        let preload = simulation.host.variable("LD_PRELOAD").unwrap_or_default();
        let preload = preload.to_string_lossy().into_owned();
        for name in preload.split([' ', ':']).filter(|name| !name.is_empty()) {
            // ld.so only prints a warning for missing LD_PRELOAD entries.
            if let Some((path, _)) = simulation.search(name, 0) {
                simulation.request_as(name, 0, |_| Some((path, Rule::Preload)));
            }
        }
        simulation.follow(0);
        simulation
    }

    /// Simulates `dlopen` of this name by the loaded object with this index. Returns whether the library and all
    /// dependencies were found. As in ld.so, a failed call loads no files.
    pub fn dlopen(&mut self, name: &str, from: usize) -> bool {
        let (first, before) = (self.objects.len(), self.lookups.len());
        self.request(name, from);
        self.follow(first);
        let is_found = |lookup: &Lookup| matches!(lookup.resolution, Resolution::Found { .. });
        let is_loaded = self.lookups.iter().skip(before).all(is_found);
        if !is_loaded {
            self.objects.truncate(first);
            self.by_name.retain(|_, index| *index < first);
            self.by_file.retain(|_, index| *index < first);
        }
        is_loaded
    }

    /// Like [`Simulation::dlopen`], but keeps the files that were found even if others are missing. The result shows
    /// everything that the library would get. Returns the index of the library itself.
    pub fn dlopen_incomplete(&mut self, name: &str, from: usize) -> Option<usize> {
        let first = self.objects.len();
        self.request(name, from);
        self.follow(first);
        self.loaded(name)
    }

    /// Like [`Simulation::dlopen_incomplete`], but takes a path, which may contain invalid UTF-8.
    pub fn open_file(&mut self, file: &Path, from: usize) -> Option<usize> {
        let first = self.objects.len();
        let name = file.to_string_lossy().into_owned();
        self.request_as(&name, from, |_| file.target_exists().then(|| (file.to_owned(), Rule::Path)));
        self.follow(first);
        self.loaded(&name)
    }

    /// Returns a copy of the process that keeps the loaded objects but drops the lookups. Use it to try a different
    /// loading order.
    #[must_use]
    pub fn fork(&self) -> Self {
        Simulation {
            host: self.host.clone(),
            files: self.files.clone(),
            search_path: self.search_path.clone(),
            objects: self.objects.iter().map(Object::copy).collect(),
            by_name: self.by_name.clone(),
            by_file: self.by_file.clone(),
            lookups: Vec::new(),
            searches: self.searches,
            dirs: self.dirs.clone(),
        }
    }

    /// Returns all lookups in the order of ld.so.
    #[must_use]
    pub fn lookups(&self) -> &[Lookup] {
        &self.lookups
    }

    /// Returns all loaded objects in the order of ld.so. The program or library itself comes first.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Returns the index of the loaded object with this name, for use with [`Simulation::dlopen`].
    #[must_use]
    pub fn loaded(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Looks up the dependencies of all objects, starting with this index, breadth first like ld.so.
    fn follow(&mut self, first: usize) {
        let mut index = first;
        while let Some(object) = self.objects.get(index).filter(|_| index < MAX_OBJECTS) {
            for name in object.links.needed.clone() {
                self.request(&name, index);
            }
            index += 1;
        }
    }

    fn request(&mut self, name: &str, by: usize) {
        self.request_as(name, by, |simulation| simulation.search(name, by));
    }

    fn request_as(&mut self, name: &str, by: usize, search: impl FnOnce(&mut Self) -> Option<(PathBuf, Rule)>) {
        if self.lookups.len() >= MAX_LOOKUPS {
            return;
        }
        let requested_by = self.objects.get(by).map(|object| object.path.clone()).unwrap_or_default();
        let resolution = match self.loaded(name).and_then(|index| self.objects.get(index)) {
            Some(object) => Resolution::Found { path: object.path.clone(), rule: Rule::Loaded },
            None => match search(self) {
                Some((path, rule)) => self.load(name, path, rule, by),
                None => Resolution::Missing,
            },
        };
        self.lookups.push(Lookup { name: name.to_owned(), requested_by, resolution });
    }

    fn load(&mut self, name: &str, path: PathBuf, rule: Rule, by: usize) -> Resolution {
        let links = match self.files.links(&path) {
            Ok(links) => links,
            Err(error) => return Resolution::Unusable { path, rule, error },
        };
        let file = self.files.canonical(&path);
        if let Some((index, object)) = file
            .as_ref()
            .and_then(|file| self.by_file.get(file))
            .and_then(|index| Some((*index, self.objects.get(*index)?)))
        {
            self.by_name.entry(name.to_owned()).or_insert(index);
            return Resolution::Found { path: object.path.clone(), rule: Rule::Loaded };
        }
        let index = self.objects.len();
        for name in [Some(name.to_owned()), links.soname.clone()].into_iter().flatten() {
            self.by_name.entry(name).or_insert(index);
        }
        self.by_file.extend(file.map(|file| (file, index)));
        self.objects.push(Object::new(path.clone(), Some(by), links));
        Resolution::Found { path, rule }
    }

    /// Searches for the file of a name that is not loaded yet.
    fn search(&mut self, name: &str, by: usize) -> Option<(PathBuf, Rule)> {
        self.searches += 1;
        if self.searches > MAX_SEARCHES {
            return None;
        }
        let requester = self.objects.get(by)?;
        if name.contains('/') {
            let path = tokens::substitute(&self.host, name.as_ref(), requester.origin(), self.is_checked(by))?;
            return path.target_exists().then_some((path, Rule::Path));
        }
        let rpaths = self.rpath_chain(by);
        let rpaths = rpaths.into_iter().filter_map(|index| {
            let object = self.objects.get(index)?;
            Some((object.path.as_path(), self.dirs(index, object.links.rpath.as_ref()?, &object.rpath_dirs)))
        });
        let runpath = requester.links.runpath.as_ref();
        let runpath = runpath.map(|runpath| self.dirs(by, runpath, &requester.runpath_dirs)).unwrap_or_default();
        let is_limited = requester.links.no_default_dirs;
        let runpath = (requester.path.as_path(), runpath);
        self.search_path.find(name, rpaths, runpath, is_limited, &self.files)
    }

    /// Returns the objects with an RPATH that applies to the dependencies of this object: the object itself, the chain
    /// of objects that caused it to be loaded, and the program. If this object has a RUNPATH, RPATHs are ignored.
    /// RPATHs of other objects with a RUNPATH are ignored as well.
    fn rpath_chain(&self, by: usize) -> Vec<usize> {
        let has_runpath = |index: usize| self.objects.get(index).is_some_and(|object| object.links.runpath.is_some());
        if has_runpath(by) {
            return Vec::new();
        }
        let loader = |index: &usize| self.objects.get(*index)?.loader;
        let mut chain: Vec<usize> = std::iter::successors(Some(by), loader).take(MAX_OBJECTS).collect();
        if !chain.contains(&0) {
            chain.push(0);
        }
        chain.retain(|index| !has_runpath(*index));
        chain
    }

    /// Returns the directories of an object's run path, which are expanded only once.
    fn dirs<'a>(&'a self, index: usize, run_path: &std::ffi::OsStr, dirs: &'a OnceCell<Vec<PathBuf>>) -> &'a [PathBuf] {
        if self.dirs.get() > MAX_DIRS {
            return &[];
        }
        let origin = self.objects.get(index).map_or(Path::new("/"), Object::origin);
        let expand = || tokens::run_path_dirs_as_is(&self.host, run_path, origin, self.is_checked(index));
        let dirs = dirs.get_or_init(expand);
        self.dirs.set(self.dirs.get() + dirs.len());
        dirs
    }

    /// Returns whether ld.so restricts `$ORIGIN`. This applies only to the run path of a setuid program itself.
    fn is_checked(&self, index: usize) -> bool {
        index == 0 && self.host.is_secure_execution()
    }
}
