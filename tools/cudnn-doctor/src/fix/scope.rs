//! Determines which files of a Python environment can change when packages are installed or removed.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_os::IS_WINDOWS;
use cudnn_os::rights::{can_write, is_of_root, is_root};
use cudnn_probe::canonicalize;

use crate::escape::Printable;
use crate::packages::{Command, PackageChange, Record, Site, normalized, package_name, records};
use crate::plan::line_of;

/// Packages with this prefix share the directory `nvidia` and depend on one another.
const OF_NVIDIA: &str = "nvidia-";

/// The part of an environment that a package change can affect. The paths contain no symbolic links.
pub(super) struct Scope {
    /// The root directory, which contains all other paths.
    pub(super) root: PathBuf,
    /// The directories that contain package metadata.
    pub(super) package_dirs: Vec<PathBuf>,
    pub(super) packages: Packages,
    /// The files of the affected packages.
    pub(super) files: BTreeSet<PathBuf>,
    /// The directories to which the installer may add files.
    pub(super) dirs: BTreeSet<PathBuf>,
}

/// Determines which packages belong to the scope of a change that installs dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breadth {
    /// The named packages and the dependencies of their installed versions.
    Named,
    /// All packages, because the installer resolves dependencies again and can then change any package.
    All,
}

/// The packages that a change can affect.
#[derive(Debug, Default, serde::Deserialize, serde::Serialize)]
pub(super) struct Packages {
    pub(super) names: BTreeSet<String>,
    /// Whether the installer may also change dependencies of these packages.
    pub(super) with_dependencies: bool,
}

impl Packages {
    fn of(change: &PackageChange, records: &[Record], breadth: Breadth) -> Packages {
        let requirements = change.remove.iter().chain(&change.reinstall).chain(&change.install);
        let mut names: BTreeSet<String> = requirements.map(|one| normalized(package_name(one))).collect();
        let with_dependencies =
            !change.install.is_empty() || change.with_dependencies || matches!(change.site, Site::Directory { .. });
        let mut new: Vec<String> = names.iter().filter(|_| with_dependencies).cloned().collect();
        while let Some(name) = new.pop() {
            let dependencies = records.iter().filter(|record| record.name == name).flat_map(requirements_of);
            new.extend(dependencies.filter(|name| names.insert(name.clone())));
        }
        if with_dependencies && breadth == Breadth::All {
            names.extend(records.iter().map(|record| record.name.clone()));
        }
        // The commands replace the record of a deleted pip.
        let is_lost = |record: &Record| record.name == "pip" && !record.dir.with_file_name("pip").exists();
        names.extend(records.iter().filter(|record| is_lost(record)).map(|record| record.name.clone()));
        Packages { names, with_dependencies }
    }

    /// Returns whether the change can affect the package with this name.
    pub(super) fn contain(&self, name: &str) -> bool {
        self.names.contains(name) || self.with_dependencies && name.starts_with(OF_NVIDIA)
    }

    pub(super) fn has_any_of_nvidia(&self) -> bool {
        self.with_dependencies || self.names.iter().any(|name| name.starts_with(OF_NVIDIA))
    }
}

/// Returns the root of the existing Python environment that this change affects, if any.
pub(super) fn root_of(change: &PackageChange) -> Option<PathBuf> {
    let root = match &change.site {
        Site::Environment(root) | Site::Interpreter { root, .. } => root,
        Site::Directory { dir, .. } => dir,
        Site::NewEnvironment { .. } | Site::OnPath | Site::Conda(_) | Site::System => return None,
    };
    canonicalize(root).ok().filter(|root| root.is_dir())
}

/// Returns why this change would be unsafe: no files can be saved, a directory of its packages is reached through a link
/// that leads out of the environment, where no files are saved, or pip would wait forever for the writer of a named
/// pipe.
pub(super) fn objection(change: &PackageChange) -> Option<String> {
    let scope = Scope::of(change, Breadth::Named)?;
    // sudo changes root's environments, and packages of a user are in another directory.
    let can_change = scope.package_dirs.iter().any(|dir| can_write(dir));
    let is_of_user = |command: &Command| command.has("--user") || !can_change && command.has("uninstall");
    let is_by_sudo = is_of_root(&scope.root) && !is_root();
    let is_protected = IS_WINDOWS || can_write(&scope.root) || is_by_sudo;
    if !is_protected && !change.commands().is_some_and(|commands| commands.iter().any(is_of_user)) {
        let root = scope.root.printable();
        return Some(format!(
            "this user cannot write to {root}, where `fix` saves the files that a step changes: mount it writable, or \
             run `chmod u+w {root}` as its owner"
        ));
    }
    let package_dirs: Vec<PathBuf> =
        change.site.package_dirs().into_iter().chain(scope.package_dirs.iter().cloned()).collect();
    let records: Vec<Record> = package_dirs.iter().flat_map(|dir| records(dir)).collect();
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_special = |path: &PathBuf| path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir());
    if let Some(path) = records.iter().flat_map(|record| entries(&record.dir)).find(is_special) {
        return Some(format!("{} is not a regular file: remove it first", path.printable()));
    }
    // A link is saved and replaced as a link, wherever it leads.
    let is_pipe = |path: &&PathBuf| {
        path.symlink_metadata().is_ok_and(|data| !data.is_file() && !data.is_dir() && !data.is_symlink())
    };
    if let Some(path) = scope.files.iter().find(is_pipe) {
        let removal = line_of(Command::new("rm", [path]).changing(&scope.root));
        return Some(format!(
            "{} is not a regular file and cannot be saved: remove it with `{removal}`",
            path.printable()
        ));
    }
    // The installer can also change any package that a new version depends on.
    let is_affected = |record: &&Record| scope.packages.with_dependencies || scope.packages.contain(&record.name);
    let recorded = records.iter().filter(is_affected);
    let recorded = recorded.flat_map(|record| recorded_files(&record.dir).into_iter().chain([record.dir.clone()]));
    let mut dirs: BTreeSet<PathBuf> = recorded.filter_map(|file| file.parent().map(Path::to_owned)).collect();
    dirs.extend(records.iter().map(|record| record.dir.clone()));
    for dir in &package_dirs {
        dirs.insert(dir.clone());
        if scope.packages.has_any_of_nvidia() {
            dirs_below(&dir.join("nvidia"), &scope.root, &mut dirs);
        }
    }
    let named = change.site.dir().map(Path::to_owned);
    dirs.extend(named.iter().flat_map(|root| ["lib", "lib64", "local"].map(|name| root.join(name))));
    let (link, target) = dirs.iter().find_map(|dir| link_outside(dir, &scope.root, named.as_deref()))?;
    Some(format!(
        "the link {} leads out of the environment, to {}: make it a directory, or change the packages with their \
         installer by hand",
        link.printable(),
        target.printable()
    ))
}

/// Adds this directory and the directories below it, and links to directories outside of the root.
fn dirs_below(dir: &Path, root: &Path, all: &mut BTreeSet<PathBuf>) {
    if !dir.is_dir()
        || !all.insert(dir.to_owned())
        || !is_dir(dir) && canonicalize(dir).is_ok_and(|real| real.starts_with(root))
    {
        return;
    }
    if is_dir(dir) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            dirs_below(&entry.path(), root, all);
        }
    }
}

/// Returns the first link on the path below the root that leads out of the root, and where it leads. `named` is the
/// root as the user named it.
fn link_outside(dir: &Path, root: &Path, named: Option<&Path>) -> Option<(PathBuf, PathBuf)> {
    let is_below =
        |path: &&Path| [Some(root), named].iter().flatten().any(|root| path.starts_with(root) && path != root);
    let mut above: Vec<&Path> = dir.ancestors().filter(is_below).collect();
    above.reverse();
    let outside = |path: &Path| canonicalize(path).ok().filter(|real| !real.starts_with(root));
    above.into_iter().find_map(|path| Some((path.to_owned(), outside(path)?)))
}

impl Scope {
    /// Returns the scope of this change, or `None` if it does not affect an existing Python environment.
    pub(super) fn of(change: &PackageChange, breadth: Breadth) -> Option<Scope> {
        let root = root_of(change)?;
        // Canonical paths avoid duplicates, because lib64 is a link to lib.
        let of_debian = site_packages(&root.join("local"));
        let package_dirs = change.site.package_dirs().into_iter().chain(of_debian);
        let package_dirs = package_dirs.filter_map(|dir| canonicalize(dir).ok()).filter(|dir| dir.is_dir());
        let package_dirs: BTreeSet<PathBuf> = package_dirs.filter(|dir| dir.starts_with(&root)).collect();
        let records: Vec<Record> = package_dirs.iter().flat_map(|dir| records(dir)).collect();
        let packages = Packages::of(change, &records, breadth);
        let mut scope =
            Scope { root, package_dirs: Vec::new(), packages, files: BTreeSet::new(), dirs: BTreeSet::new() };
        for dir in package_dirs {
            scope.dirs.insert(dir.clone());
            if scope.packages.has_any_of_nvidia() {
                // This includes files without a record.
                scope.add(&dir.join("nvidia"));
            }
            scope.package_dirs.push(dir);
        }
        let (own, others): (Vec<Record>, Vec<Record>) =
            records.into_iter().partition(|record| scope.packages.contain(&record.name));
        let of_nvidia = others.iter().filter(|record| record.name.starts_with(OF_NVIDIA));
        for file in of_nvidia.flat_map(|record| recorded_files(&record.dir)) {
            scope.files.remove(&file);
        }
        for record in &own {
            scope.add(&record.dir);
            for file in recorded_files(&record.dir) {
                let above = file.ancestors().skip(1);
                let above = above.filter(|above| scope.package_dirs.iter().any(|dir| above.starts_with(dir)));
                scope.dirs.extend(above.map(Path::to_owned));
                // A record lists only files. The contents of other directories are not those of the package.
                if !is_dir(&file) || scope.package_dirs.iter().any(|dir| file.starts_with(dir)) {
                    scope.add(&file);
                }
            }
        }
        let Scope { root, files, dirs, .. } = &mut scope;
        dirs.retain(|dir| is_dir(dir) && canonicalize(dir).is_ok_and(|real| real == *dir));
        let is_below = |file: &Path| {
            let real = file.parent().and_then(|dir| canonicalize(dir).ok());
            real.as_deref() == file.parent() && file.starts_with(&*root)
        };
        files.retain(|file| file.symlink_metadata().is_ok() && is_below(file));
        Some(scope)
    }

    /// Adds a file, or a directory including the contents.
    fn add(&mut self, path: &Path) {
        if !is_dir(path) {
            self.files.insert(path.to_owned());
            return;
        }
        self.dirs.insert(path.to_owned());
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            self.add(&entry.path());
        }
    }
}

/// Returns whether the path is a real directory rather than a link to one.
pub(super) fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// The maximum size in bytes of a package's metadata or file list. The list of torch has 1.5 MB.
const MAX_LEN: u64 = 32 << 20;

fn read(file: &Path) -> String {
    let bytes = cudnn_probe::read_bounded(file, MAX_LEN).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the files that pip recorded in this directory, with `..` removed from the paths.
pub(super) fn recorded_files(record: &Path) -> Vec<PathBuf> {
    let path = |line: &str| {
        let path = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once("\",")?.0.replace("\"\"", "\""),
            None => line.split(',').next().filter(|path| !path.is_empty())?.to_owned(),
        };
        let mut normal = PathBuf::new();
        for component in record.parent()?.join(path).components() {
            match component {
                Component::ParentDir => drop(normal.pop()),
                other => normal.push(other),
            }
        }
        Some(normal)
    };
    read(&record.join("RECORD")).lines().filter_map(path).collect()
}

/// Returns the names of all requirements of a package, ignoring environment markers.
fn requirements_of(record: &Record) -> Vec<String> {
    let metadata = read(&record.dir.join("METADATA"));
    let lines = metadata.lines().take_while(|line| !line.is_empty());
    let requirements = lines.filter_map(|line| line.strip_prefix("Requires-Dist:"));
    requirements.map(|one| normalized(package_name(one.trim_start()))).collect()
}
