//! Which file the dynamic linker would take for each name that a program or library needs, and by which rule: glibc's
//! rules, followed without loading anything.
//!
//! Not followed: the legacy subfolders (`tls`, `x86_64`) that glibc before 2.37 looks into, `dlmopen`, auditing, and
//! preloading by `/etc/ld.so.preload`.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::image::{Links, links};
use crate::{Host, LdSearchPath, ProbeError};

/// The most objects that are followed.
const MAX_OBJECTS: usize = 4096;

/// The rule by which a file was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The name is a path.
    Path,
    /// Named by LD_PRELOAD.
    Preload,
    /// An object of this name is loaded already.
    Loaded,
    /// DT_RPATH of this object: before LD_LIBRARY_PATH.
    Rpath(PathBuf),
    /// LD_LIBRARY_PATH.
    LibraryPath,
    /// DT_RUNPATH of this object: after LD_LIBRARY_PATH.
    Runpath(PathBuf),
    /// The linker's cache.
    Cache,
    /// One of the linker's own folders.
    Default,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Path => f.write_str("by its path"),
            Rule::Preload => f.write_str("LD_PRELOAD"),
            Rule::Loaded => f.write_str("loaded already"),
            Rule::Rpath(of) => write!(f, "RPATH of {of:?}"),
            Rule::LibraryPath => f.write_str("LD_LIBRARY_PATH"),
            Rule::Runpath(of) => write!(f, "RUNPATH of {of:?}"),
            Rule::Cache => f.write_str("/etc/ld.so.cache"),
            Rule::Default => f.write_str("the linker's own folders"),
        }
    }
}

/// What came of a name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Resolution {
    /// This file.
    Found {
        /// The file, as the linker would call it.
        path: PathBuf,
        /// The rule that decided.
        rule: Rule,
    },
    /// No file.
    Missing,
    /// This file, which cannot be loaded: the linker stops there.
    Unusable {
        /// The file.
        path: PathBuf,
        /// The rule that decided.
        rule: Rule,
        /// Why it cannot be loaded.
        error: ProbeError,
    },
}

/// A name that was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Lookup {
    /// The name.
    pub name: String,
    /// The object that asked for it.
    pub wanted_by: PathBuf,
    /// What came of it.
    pub outcome: Resolution,
}

/// An object that would be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Object {
    /// Its file, as the linker would call it.
    pub path: PathBuf,
    /// The object on whose account it is loaded, by its place among the objects.
    loader: Option<usize>,
    /// The names under which it is found again.
    names: Vec<String>,
    links: Links,
}

/// What the dynamic linker would do.
#[derive(Debug)]
pub struct Simulation {
    places: LdSearchPath,
    /// As it is: the linker takes relative folders too, and an empty one for the working directory.
    library_path: String,
    defaults: Vec<PathBuf>,
    subfolders: Vec<&'static str>,
    objects: Vec<Object>,
    steps: Vec<Lookup>,
}

impl Simulation {
    /// Starts this program, or opens this library from a program that has nothing to say.
    ///
    /// # Errors
    /// Why the file itself cannot be loaded.
    pub fn new(file: &Path, environment: &Host) -> Result<Self, ProbeError> {
        let mut prediction = Simulation {
            library_path: environment.variable("LD_LIBRARY_PATH").unwrap_or_default().to_string_lossy().into_owned(),
            places: LdSearchPath::new(environment),
            defaults: default_folders(environment),
            subfolders: subfolders(),
            objects: Vec::new(),
            steps: Vec::new(),
        };
        let links = links(file)?;
        let path = match links.soname {
            Some(_) => std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
            // The kernel starts a program by the file itself, without links.
            None => std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()),
        };
        let names = links.soname.iter().cloned().collect();
        prediction.objects.push(Object { path, loader: None, names, links });
        // The kernel has the linker believe no variable of whoever starts a program that runs with another's rights.
        if is_setid(file) {
            prediction.library_path.clear();
        }
        let preload = environment.variable("LD_PRELOAD").filter(|_| !is_setid(file)).unwrap_or_default();
        let preload = preload.to_string_lossy().into_owned();
        for name in preload.split([' ', ':']).filter(|name| !name.is_empty()) {
            // One that is not there is complained of by the linker, and does without.
            if prediction.resolve(name, 0).is_some() {
                prediction.request(name, 0, true);
            }
        }
        prediction.follow(0);
        Ok(prediction)
    }

    /// Has a loaded object open a library by this name at run time (`dlopen`), and all that this one needs. Says whether
    /// it can.
    pub fn open(&mut self, name: &str, from: usize) -> bool {
        let (first, before) = (self.objects.len(), self.steps.len());
        self.request(name, from, false);
        self.follow(first);
        let can = self.steps.iter().skip(before).all(|step| matches!(step.outcome, Resolution::Found { .. }));
        if !can {
            // What was mapped on the way is unmapped again.
            self.objects.truncate(first);
        }
        can
    }

    /// Every name that was asked for, in order.
    #[must_use]
    pub fn steps(&self) -> &[Lookup] {
        &self.steps
    }

    /// The objects that would be loaded, in order: the file itself first.
    #[must_use]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The place of the object with this name, for [`Prediction::open`].
    #[must_use]
    pub fn loaded(&self, name: &str) -> Option<usize> {
        self.objects.iter().position(|object| object.names.iter().any(|other| other == name))
    }

    /// Resolves what objects need, from this one on, breadth first, as the linker does.
    fn follow(&mut self, first: usize) {
        let mut index = first;
        while let Some(object) = self.objects.get(index).filter(|_| index < MAX_OBJECTS) {
            for name in object.links.needed.clone() {
                self.request(&name, index, false);
            }
            index += 1;
        }
    }

    fn request(&mut self, name: &str, by: usize, is_preload: bool) {
        let wanted_by = self.objects.get(by).map(|object| object.path.clone()).unwrap_or_default();
        let outcome = match self.loaded(name) {
            Some(index) => {
                let path = self.objects.get(index).map(|object| object.path.clone()).unwrap_or_default();
                Resolution::Found { path, rule: Rule::Loaded }
            }
            None => match self.resolve(name, by) {
                None => Resolution::Missing,
                Some((path, rule)) => {
                    let rule = if is_preload { Rule::Preload } else { rule };
                    self.load(name, path, rule, by)
                }
            },
        };
        self.steps.push(Lookup { name: name.to_owned(), wanted_by, outcome });
    }

    fn load(&mut self, name: &str, path: PathBuf, rule: Rule, by: usize) -> Resolution {
        let links = match links(&path) {
            Ok(links) => links,
            Err(refusal) => return Resolution::Unusable { path, rule, error: refusal },
        };
        let real = std::fs::canonicalize(&path).ok();
        let same = |object: &&mut Object| real.is_some() && std::fs::canonicalize(&object.path).ok() == real;
        if let Some(object) = self.objects.iter_mut().find(same) {
            object.names.push(name.to_owned());
            return Resolution::Found { path: object.path.clone(), rule: Rule::Loaded };
        }
        let mut names = vec![name.to_owned()];
        names.extend(links.soname.clone());
        self.objects.push(Object { path: path.clone(), loader: Some(by), names, links });
        Resolution::Found { path, rule }
    }

    /// The file for a name that is not loaded yet.
    fn resolve(&self, name: &str, by: usize) -> Option<(PathBuf, Rule)> {
        if name.contains('/') {
            let origin = self.objects.get(by)?.path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
            let path = PathBuf::from(expand(name, &origin));
            return path.exists().then_some((path, Rule::Path));
        }
        let asking = self.objects.get(by)?;
        if asking.links.runpath.is_none() {
            // The RPATHs of all on whose account this one is loaded, then the program's.
            let mut chain: Vec<&Object> = Vec::new();
            let mut next = Some(by);
            while let Some(object) =
                next.and_then(|index| self.objects.get(index)).filter(|_| chain.len() < MAX_OBJECTS)
            {
                chain.push(object);
                next = object.loader;
            }
            chain
                .extend(self.objects.first().filter(|first| !chain.iter().any(|object| std::ptr::eq(*object, *first))));
            for object in chain.iter().filter(|object| object.links.runpath.is_none()) {
                if let Some(path) = self.in_run_path(object, object.links.rpath.as_deref(), name) {
                    return Some((path, Rule::Rpath(object.path.clone())));
                }
            }
        }
        if let Some(path) = self.in_library_path(name) {
            return Some((path, Rule::LibraryPath));
        }
        if let Some(path) = self.in_run_path(asking, asking.links.runpath.as_deref(), name) {
            return Some((path, Rule::Runpath(asking.path.clone())));
        }
        let in_defaults = |file: &PathBuf| self.defaults.iter().any(|folder| file.starts_with(folder));
        let may = |file: &PathBuf| is_ours(file) && !(asking.links.no_defaults && in_defaults(file));
        if let Some(path) = self.places.cached(name).find(may) {
            return Some((path, Rule::Cache));
        }
        if asking.links.no_defaults {
            return None;
        }
        let path = self.defaults.iter().find_map(|folder| self.in_folder(folder, name))?;
        Some((path, Rule::Default))
    }

    fn in_library_path(&self, name: &str) -> Option<PathBuf> {
        if self.library_path.is_empty() {
            return None;
        }
        let program = self.objects.first().and_then(|object| object.path.parent()).unwrap_or(Path::new("/"));
        let origin = program.to_string_lossy().into_owned();
        self.library_path.split([':', ';']).find_map(|folder| {
            let folder = if folder.is_empty() { ".".to_owned() } else { expand(folder, &origin) };
            let folder = std::path::absolute(&folder).unwrap_or(PathBuf::from(folder));
            self.in_folder(&folder, name)
        })
    }

    fn in_run_path(&self, of: &Object, run_path: Option<&str>, name: &str) -> Option<PathBuf> {
        let origin = of.path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        run_path?.split(':').filter(|folder| !folder.is_empty()).find_map(|folder| {
            let folder = expand(folder, &origin);
            self.in_folder(Path::new(&folder), name)
        })
    }

    /// The file in a folder, or in its subfolder for this processor. One for another processor is passed over.
    fn in_folder(&self, folder: &Path, name: &str) -> Option<PathBuf> {
        let special = self.subfolders.iter().map(|level| folder.join("glibc-hwcaps").join(level).join(name));
        special.chain([folder.join(name)]).find(|file| is_ours(file))
    }
}

/// Would a process of this program run with other rights than those of who starts it?
fn is_setid(program: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(program).is_ok_and(|metadata| metadata.permissions().mode() & 0o6000 != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = program;
        false
    }
}

/// The linker passes over what is for another processor and what it may not read, and stops at what is no ELF file at all.
fn is_ours(file: &Path) -> bool {
    let passed_over = |refusal| match refusal {
        ProbeError::WrongArchitecture { .. } | ProbeError::NotFound | ProbeError::BrokenLink { .. } => true,
        ProbeError::Unreadable { error } => error.kind() == std::io::ErrorKind::PermissionDenied,
        _ => false,
    };
    !links(file).is_err_and(passed_over)
}

/// The dynamic string tokens, with and without braces.
fn expand(folder: &str, origin: &str) -> String {
    let (library, platform) =
        if cfg!(target_arch = "aarch64") { ("lib", "aarch64") } else { ("lib/x86_64-linux-gnu", "x86_64") };
    let mut text = folder.to_owned();
    for (token, value) in [("ORIGIN", origin), ("LIB", library), ("PLATFORM", platform)] {
        text = text.replace(&format!("${{{token}}}"), value).replace(&format!("${token}"), value);
    }
    text
}

/// The folders that a distribution's linker has built in: Debian's has those of its architecture, others lib64.
fn default_folders(environment: &Host) -> Vec<PathBuf> {
    let triple = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
    let folders = match environment.system(&format!("/lib/{triple}")).is_dir() {
        true => vec![format!("/lib/{triple}"), format!("/usr/lib/{triple}"), "/lib".into(), "/usr/lib".into()],
        false => vec!["/lib64".into(), "/usr/lib64".into()],
    };
    folders.iter().map(|folder| environment.system(folder)).collect()
}

/// The subfolders of `glibc-hwcaps` that this processor can use, best first.
fn subfolders() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let v2 = is_x86_feature_detected!("sse4.2")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("popcnt");
        let v3 = v2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("fma");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}
