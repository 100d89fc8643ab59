//! Derives the state of the machine after an action, as far as the checks can see it.
//!
//! The simulation models variables, links, removed files, and packages of pip, conda and apt. A removal deletes all
//! files in the package's record, including files of other packages. An installation is a no-op if the requirement is
//! met.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;
use cudnn_frameworks::{PackageRecord, normalized};
use cudnn_probe::facts::{Changes, Facts, PathFacts};
use cudnn_probe::image::links;
use cudnn_probe::python::includes_base_packages;
use cudnn_probe::{Architecture, Library, Os, canonicalize, identify_any};

use super::records::{PackageFiles, PackageRecords};
use crate::packages::{PackageChange, Site, package_name, python_problem, restore_python, site_of_new};
use crate::remedy::{Action, Variable};

pub(super) struct SimulatedMachine {
    before: Facts,
    changes: Changes,
    /// The facts after the changes, until the next one.
    after: OnceCell<Facts>,
}

/// The state after an action is unknown.
pub(super) struct Unknown;

/// Returns the facts after an action on this machine, if the simulation knows them.
pub fn facts_after(action: &Action) -> Option<Facts> {
    let mut simulation = SimulatedMachine::new(Facts::recorder());
    simulation.take(action).ok()?;
    Some(simulation.facts())
}

impl SimulatedMachine {
    pub(super) fn new(before: Facts) -> Self {
        SimulatedMachine { before, changes: Changes::default(), after: OnceCell::new() }
    }

    pub(super) fn facts(&self) -> Facts {
        self.after.get_or_init(|| self.before.after(self.changes.clone())).clone()
    }

    /// Applies an action. If the result is unknown, a part of the changes may already be applied.
    pub(super) fn take(&mut self, action: &Action) -> Result<(), Unknown> {
        match action {
            Action::Remove(paths) => paths.iter().for_each(|path| self.change(|changes| changes.remove(path))),
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
            Action::Python(root) => return self.restore_python(root),
            Action::Inspect(_) => {}
            // These change permissions or the search of other programs.
            Action::Permit { .. } | Action::Ldconfig | Action::DropIn { .. } => {
                return Err(Unknown);
            }
        }
        Ok(())
    }

    fn change(&mut self, change: impl FnOnce(&mut Changes)) {
        self.before.within(|| change(&mut self.changes));
        self.after.take();
    }

    fn within<T>(&self, read: impl FnOnce() -> T) -> T {
        self.facts().within(read)
    }

    fn set(&mut self, variable: &Variable) -> Result<(), Unknown> {
        let current = |name: &str| self.within(|| cudnn_probe::facts::variable(name));
        // Like `env`, which also finds a cuDNN below the directory.
        let cudnn_below = |dir: &Path| {
            let places = ["", "nvidia/cudnn/lib", "nvidia/cudnn_jit/lib", "lib", "lib64"];
            let has_graph = |dir: &PathBuf| dir.join(Library::Graph.file_name()).target_exists();
            self.within(|| {
                let roots = site_packages(dir).chain([dir.to_owned()]);
                { roots }.flat_map(|root| places.map(|place| root.join(place))).find(has_graph)
            })
        };
        for (name, value) in variable.assigned(current, cudnn_below).ok_or(Unknown)? {
            self.change(|changes| changes.set_variable(&name, value));
        }
        Ok(())
    }

    fn change_packages(&mut self, change: &PackageChange) -> Result<(), Unknown> {
        let records = self.records(change)?;
        let is_directory = matches!(change.site, Site::Directory { .. });
        let mut aside = self.within(|| change.records_aside());
        aside.retain(|aside| !is_directory || aside.is_left);
        aside.iter().for_each(|aside| self.change(|changes| changes.remove(aside.before())));
        // conda's solver decides which packages it removes.
        let removed: &[String] = if matches!(records, PackageRecords::Conda { .. }) { &[] } else { &change.remove };
        let mut packages = Packages { machine: self, records };
        let remove = |packages: &mut Packages<'_>| removed.iter().try_for_each(|name| packages.remove(name));
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
        for requirement in packages.machine.within(|| packages.records.outdated()) {
            packages.install(&requirement, false, true)?;
        }
        if change.removes_last {
            remove(&mut packages)?;
        }
        if packages.machine.within(|| packages.records.contradict()) { Err(Unknown) } else { Ok(()) }
    }

    /// Returns the records that a change affects.
    fn records(&mut self, change: &PackageChange) -> Result<PackageRecords, Unknown> {
        match &change.site {
            _ if Os::HOST == Os::Windows => Err(Unknown),
            // pip leaves existing files in place and installs the others.
            Site::Directory { dir, options, .. }
                if !options.contains(&"--upgrade") && self.within(|| dir.join("nvidia").path_exists()) =>
            {
                Err(Unknown)
            }
            Site::Environment(_) | Site::Interpreter { .. } | Site::User { .. } | Site::Directory { .. } => self
                .within(|| {
                    let dir = change.site.written_dirs().into_iter().next().ok_or(Unknown)?;
                    Ok(PackageRecords::Pip { dirs: change.site.package_dirs(), dir })
                }),
            Site::NewEnvironment { dir, program, .. } => self.create_environment(dir, program).ok_or(Unknown),
            // On aarch64, packages for servers share their names with packages for Jetson.
            _ if Architecture::HOST != Architecture::X86_64 => Err(Unknown),
            Site::Conda(root) => self.within(|| PackageRecords::read_conda(root, &change.install)).ok_or(Unknown),
            Site::System => Ok(PackageRecords::Dpkg),
            Site::OnPath => Err(Unknown),
        }
    }

    /// Recreates the Python of the virtual environment at this root, unless uv would create it.
    fn restore_python(&mut self, root: &Path) -> Result<(), Unknown> {
        let Some(missing) = self.within(|| restore_python(root)) else { return Ok(()) };
        let program =
            missing.commands.last().map(|venv| Path::new(&venv.program)).filter(|program| program.is_absolute());
        let program = program.ok_or(Unknown)?;
        missing.stale.iter().for_each(|path| self.change(|changes| changes.remove(path)));
        self.create_environment(root, program).ok_or(Unknown)?;
        let is_lost = self.within(|| python_problem(root).is_some());
        if is_lost { Err(Unknown) } else { Ok(()) }
    }

    /// Creates a virtual environment like this Python does, if the version is known.
    fn create_environment(&mut self, root: &Path, program: &Path) -> Option<PackageRecords> {
        let site = self.within(|| site_of_new(root, program))?;
        let home = self.within(|| canonicalize(program)).ok()?.parent()?.display().to_string();
        let version = site.parent()?.file_name()?.to_str()?.trim_start_matches("python").to_owned();
        let has_system = self.within(|| includes_base_packages(root));
        let settings = format!("home = {home}\ninclude-system-site-packages = {has_system}\nversion = {version}\n");
        self.change(|changes| {
            changes.write(&root.join("pyvenv.cfg"), &settings);
            ["python", "python3"].iter().for_each(|name| changes.write_program(&root.join("bin").join(name), "#!"));
            changes.create_dir(&site.join("pip"));
        });
        Some(PackageRecords::Pip { dirs: vec![site.clone()], dir: site })
    }
}

struct Packages<'a> {
    machine: &'a mut SimulatedMachine,
    records: PackageRecords,
}

impl Packages<'_> {
    /// Returns the record of a package. After an interrupted upgrade there may be two, which is an unknown state.
    fn find(&self, name: &str) -> Result<Option<PackageRecord>, Unknown> {
        let mut found: Vec<PackageRecord> = self.machine.within(|| self.records.find(&normalized(name)));
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(Unknown),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), Unknown> {
        self.find(name)?.map_or(Ok(()), |record| self.uninstall(&record))
    }

    /// Deletes the files of a package, and the directories that become empty.
    fn uninstall(&mut self, record: &PackageRecord) -> Result<(), Unknown> {
        // Without a record, the installer neither removes nor installs.
        let PackageFiles { base, paths } = self.machine.within(|| self.records.files(record)).ok_or(Unknown)?;
        self.machine.change(|changes| {
            paths.iter().for_each(|path| changes.remove(&base.join(path)));
            self.records.remove(changes, record);
        });
        let mut parents: Vec<&Path> = paths.iter().flat_map(|path| path.ancestors().skip(1)).collect();
        parents.sort_by_key(|parent| std::cmp::Reverse((parent.components().count(), parent.to_owned())));
        parents.dedup();
        for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
            let parent = base.join(parent);
            let is_empty = || cudnn_probe::facts::read_dir(&parent).is_ok_and(|entries| entries.is_empty());
            if self.machine.within(is_empty) {
                self.machine.change(|changes| changes.remove(&parent));
            }
        }
        Ok(())
    }

    /// Installs the required version in place of other versions of the package.
    fn install(&mut self, requirement: &str, is_again: bool, has_dependencies: bool) -> Result<(), Unknown> {
        let name = package_name(requirement);
        if let Some(old) = self.find(name)?.filter(|_| !is_again)
            && self.machine.within(|| self.records.keeps(&old, requirement)).ok_or(Unknown)?
        {
            return Ok(());
        }
        let new = self.records.chosen(requirement, is_again).ok_or(Unknown)?;
        // pip installs the dependencies of a package before it removes the old version.
        if has_dependencies {
            for requirement in &new.requires {
                self.install(requirement, false, true)?;
            }
        }
        self.remove(name)?;
        for other in self.machine.within(|| self.records.displaced_by(&new)) {
            let Some(record) = self.find(&other)? else { continue };
            self.uninstall(&record)?;
            if let Some(following) = self.records.following(&other, &new) {
                self.machine.change(|changes| self.records.add(changes, &following));
            }
        }
        self.machine.change(|changes| self.records.add(changes, &new));
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests;
