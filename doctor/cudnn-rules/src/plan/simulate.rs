//! Derives the state of the machine after an action, as far as the checks can see it.
//!
//! Known are variables, links, removed files, and packages of pip. A removal deletes all files in the package's record,
//! including files of other packages. An installation does nothing if the requirement is met.

use std::ffi::OsString;
use std::path::{Component as PathPart, Path, PathBuf};

use cudnn_cli::shell::SEARCH_PATH;
use cudnn_cli::shell::SEPARATOR;
use cudnn_frameworks::{normalized, parse_record_line};
use cudnn_probe::facts::{Changes, Facts, PathFacts};
use cudnn_probe::image::links;
use cudnn_probe::{DIR_VARIABLE, Library, Os, identify_any};

use super::wheel;
use crate::packages::{PackageChange, Record, Site, package_name, records};
use crate::remedy::{Action, Variable};
use crate::shell;

/// The maximum length of a package's record in bytes, the maximum number of files in it, and the maximum length of their
/// names.
const MAX_RECORD_LEN: u64 = 32 << 20;
const MAX_FILES: usize = 20_000;
const MAX_PATH_LEN: usize = 1_000;

/// A machine after some actions.
pub(super) struct Simulation {
    before: Facts,
    changes: Changes,
}

/// The reason why the state after an action is not known.
pub(super) struct Unknown;

/// Returns the facts after an action on this machine as it is now. `None` if they are not known.
pub fn facts_after(action: &Action) -> Option<Facts> {
    let mut simulation = Simulation::new(Facts::recorder());
    simulation.take(action).ok()?;
    Some(simulation.facts())
}

impl Simulation {
    /// Starts from the active facts.
    pub(super) fn new(before: Facts) -> Self {
        // Without changes, nothing is asked again.
        Simulation { before: before.after(Changes::default()), changes: Changes::default() }
    }

    /// Returns the facts after the actions.
    pub(super) fn facts(&self) -> Facts {
        self.before.after(self.changes.clone())
    }

    /// Takes an action.
    ///
    /// # Errors
    /// The state after the action is not known. What is known about it has changed.
    pub(super) fn take(&mut self, action: &Action) -> Result<(), Unknown> {
        match action {
            Action::Remove { paths, .. } => paths.iter().for_each(|path| self.change(|changes| changes.remove(path))),
            Action::CreateDir(dir) => self.change(|changes| changes.create_dir(dir)),
            Action::Link { dir, version } => {
                for library in Library::ALL {
                    let link = dir.join(library.file_name());
                    let file = dir.join(format!("{library}.{}.{}", version.minor, version.patch));
                    let copied = || if link.target_exists() { None } else { identify_any(&file, *library).ok() };
                    if let Some((identity, links)) = self.within(|| Some((copied()?, links(&file).ok()?))) {
                        self.change(|changes| changes.write_copy(&link, identity, &links));
                    }
                }
            }
            Action::Packages(change) => return self.change_packages(change),
            Action::Variable(variable) => return self.set(variable),
            Action::Inspect(_) => {}
            // They change permissions, the search of other programs, or the name of a directory.
            Action::NameByLink(_) => return Err(Unknown),
            Action::Permit { .. } | Action::Python(_) | Action::Ldconfig | Action::DropIn { .. } => {
                return Err(Unknown);
            }
        }
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Changes)) {
        self.before.within(|| change(&mut self.changes));
    }

    /// Calls a function on the machine after the actions.
    fn within<T>(&self, read: impl FnOnce() -> T) -> T {
        self.facts().within(read)
    }

    fn set(&mut self, variable: &Variable) -> Result<(), Unknown> {
        // A name that the variable cannot contain is replaced by that of a link.
        if let Variable::Search(dir) = variable
            && shell::name_for_search(dir) != *dir
        {
            return Err(Unknown);
        }
        let current = |name: &str| self.within(|| cudnn_probe::facts::variable(name));
        let first_on_path = |dir: &Path| {
            let mut path = dir.as_os_str().to_owned();
            if let Some(rest) = current(SEARCH_PATH).filter(|rest| !rest.is_empty()) {
                path.push(SEPARATOR.to_string());
                path.push(rest);
            }
            path
        };
        let (name, value): (&str, Option<OsString>) = match variable {
            Variable::Set { name, value } => (name, Some(value.clone())),
            Variable::Unset(name) => (name, None),
            Variable::Without { name, entries } => {
                let kept = current(name).map(|value| shell::kept_entries(name, &value, entries));
                (name, kept.filter(|value| !value.is_empty()))
            }
            Variable::Use(dir) => {
                // Like `env`, which also finds a cuDNN below the directory.
                let places =
                    ["", "nvidia/cudnn/lib", "nvidia/cudnn_jit/lib", "lib", "lib64"].map(|below| dir.join(below));
                let has_graph = |dir: &&PathBuf| dir.join(Library::Graph.file_name()).target_exists();
                let dir = self.within(|| places.iter().find(has_graph).cloned()).ok_or(Unknown)?;
                let path = first_on_path(&dir);
                self.change(|changes| changes.set_variable(SEARCH_PATH, Some(path)));
                (DIR_VARIABLE, Some(dir.into()))
            }
            Variable::Search(dir) => (SEARCH_PATH, Some(first_on_path(dir))),
        };
        self.change(|changes| changes.set_variable(name, value));
        Ok(())
    }

    fn change_packages(&mut self, change: &PackageChange) -> Result<(), Unknown> {
        let dirs = match &change.site {
            _ if Os::HOST == Os::Windows => return Err(Unknown),
            // pip leaves the files that are there, and installs the rest.
            Site::Directory { dir, options, .. }
                if !options.contains(&"--upgrade") && self.within(|| dir.join("nvidia").path_exists()) =>
            {
                return Err(Unknown);
            }
            Site::Environment(_) | Site::Interpreter { .. } | Site::Directory { .. } => {
                self.within(|| change.site.package_dirs())
            }
            Site::OnPath | Site::NewEnvironment { .. } | Site::Conda(_) | Site::System => return Err(Unknown),
        };
        let is_directory = matches!(change.site, Site::Directory { .. });
        let mut aside = self.within(|| change.records_aside());
        aside.retain(|aside| !is_directory || aside.is_left());
        aside.iter().for_each(|aside| self.change(|changes| changes.remove(aside.before())));
        let dir = self.within(|| dirs.iter().find(|dir| dir.leads_to_dir()).or(dirs.first()).cloned());
        let mut packages = Packages { machine: self, dir: dir.ok_or(Unknown)?, dirs };
        let remove = |packages: &mut Packages<'_>| change.remove.iter().try_for_each(|name| packages.remove(name));
        if !change.removes_last {
            remove(&mut packages)?;
        }
        for requirement in &change.reinstall {
            packages.install(requirement, true, change.with_dependencies)?;
        }
        let has_dependencies =
            !matches!(&change.site, Site::Directory { options, .. } if options.contains(&"--no-deps"));
        for requirement in &change.install {
            packages.install(requirement, false, has_dependencies)?;
        }
        if change.removes_last { remove(&mut packages) } else { Ok(()) }
    }
}

/// The packages of one place.
struct Packages<'a> {
    machine: &'a mut Simulation,
    /// The directories that contain packages.
    dirs: Vec<PathBuf>,
    /// The directory for new packages.
    dir: PathBuf,
}

impl Packages<'_> {
    /// Returns the record of a package. After an interrupted upgrade there may be two, and which one counts is not known.
    fn find(&self, name: &str) -> Result<Option<Record>, Unknown> {
        let name = normalized(name);
        let all = || self.dirs.iter().flat_map(|dir| records(dir)).filter(|record| record.name == name).collect();
        let mut found: Vec<Record> = self.machine.within(all);
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(Unknown),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), Unknown> {
        self.find(name)?.map_or(Ok(()), |record| self.uninstall(&record))
    }

    /// Deletes the files of a package, and the directories that become empty.
    fn uninstall(&mut self, record: &Record) -> Result<(), Unknown> {
        let files = self.files(record)?;
        let dir = record.dir.parent().unwrap_or(&record.dir).to_owned();
        self.machine.change(|changes| {
            files.iter().for_each(|file| changes.remove(&dir.join(file)));
            changes.remove(&record.dir);
        });
        let mut parents: Vec<&Path> = files.iter().flat_map(|file| file.ancestors().skip(1)).collect();
        parents.sort_by_key(|parent| std::cmp::Reverse((parent.components().count(), parent.to_owned())));
        parents.dedup();
        for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()).map(|parent| dir.join(parent))
        {
            let is_empty = || cudnn_probe::facts::read_dir(&parent).is_ok_and(|mut entries| entries.next().is_none());
            if self.machine.within(is_empty) {
                self.machine.change(|changes| changes.remove(&parent));
            }
        }
        Ok(())
    }

    /// Returns the files of a package below the directory of packages.
    fn files(&self, record: &Record) -> Result<Vec<PathBuf>, Unknown> {
        let read = || cudnn_probe::read_bounded(&record.dir.join("RECORD"), MAX_RECORD_LEN);
        let text = self.machine.within(read).map_err(|_| Unknown)?;
        let text = String::from_utf8_lossy(&text).replace('\\', "/");
        let path = |line: &str| {
            let (path, ..) = parse_record_line(line).filter(|(path, ..)| path.len() <= MAX_PATH_LEN)?;
            Some(PathBuf::from(path))
        };
        let is_below = |path: &PathBuf| {
            path.file_name().is_some() && path.components().all(|part| matches!(part, PathPart::Normal(_)))
        };
        let files: Vec<PathBuf> = text.lines().filter_map(path).filter(is_below).take(MAX_FILES + 1).collect();
        if files.len() > MAX_FILES { Err(Unknown) } else { Ok(files) }
    }

    /// Installs what the requirement asks for, in place of other versions of the package.
    fn install(&mut self, requirement: &str, is_again: bool, has_dependencies: bool) -> Result<(), Unknown> {
        let name = package_name(requirement);
        let old = self.find(name)?;
        if let Some(old) = old.as_ref().filter(|_| !is_again) {
            // Without a version in the name, pip reads the metadata.
            let version = old.version.as_ref().ok_or(Unknown)?;
            if wheel::is_met(requirement, version) {
                return Ok(());
            }
        }
        let new = wheel::chosen(requirement).ok_or(Unknown)?;
        // pip installs what a package requires before it removes the old version.
        if has_dependencies {
            for requirement in &new.requires {
                self.install(requirement, false, true)?;
            }
        }
        if let Some(old) = old {
            // Without a record, pip neither removes nor installs.
            self.uninstall(&old)?;
        }
        let dir = self.dir.clone();
        self.machine.change(|changes| new.install(changes, &dir));
        Ok(())
    }
}
