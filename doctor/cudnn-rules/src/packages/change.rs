//! Describes a change to the packages in one place, and merges several changes to the same place.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::rights::is_read_only;
use cudnn_frameworks::installation::site_packages;
use cudnn_frameworks::{Environment, PackageRecord, pip_records, real_path};
use cudnn_probe::facts::PathFacts;
use cudnn_probe::{Host, dir_of_wheel};

use super::contents;
use super::dirs::{dirs_of_wheels, link_out_of};
use super::environment::{debian_dir, is_virtual, root_of};
use super::installed_pip::Interpreter;
use super::pip::recorded_version;
use super::requirement::{package_name, stricter};
use super::wheels::NVIDIA_PREFIX;

/// A place where packages are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// A Python environment with this root.
    Environment(PathBuf),
    /// The environment at `root`, which contains several Pythons, changed with this one.
    Interpreter {
        /// The interpreter that changes it.
        program: PathBuf,
        /// The root of the environment.
        root: PathBuf,
    },
    /// The user's packages of this Python: `pip install --user`.
    User {
        /// The Python that imports and changes them.
        program: PathBuf,
        /// The directory that contains the packages of all Pythons.
        base: PathBuf,
        /// The directory of this Python's packages.
        dir: PathBuf,
    },
    /// The environment of the `pip` on `PATH`.
    OnPath,
    /// A directory filled with `pip install --target` and these options.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The pip that fills it.
        pip: Pip,
        /// The options except for the directory.
        options: Vec<&'static str>,
    },
    /// A new virtual environment, created with `program`.
    NewEnvironment {
        /// The root of the environment.
        dir: PathBuf,
        /// The Python that creates it.
        program: PathBuf,
    },
    /// A conda environment with this root.
    Conda(PathBuf),
    /// System packages, managed by apt.
    System,
}

/// The pip that fills a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pip {
    /// Any pip, because the directory's Python is unknown. Only for NVIDIA's wheels, which work with every Python.
    Any,
    /// The pip of the environment at this root.
    Environment(PathBuf),
    /// The pip of this Python.
    Interpreter(PathBuf),
}

/// Explains why a directory on a read-only file system cannot be changed.
pub fn explain_read_only(dir: &Path) -> String {
    let dir = dir.printable();
    format!("{dir} is on a read-only file system: make it writable, or change the packages in its image")
}

impl Site {
    /// Returns the directory whose owner may change the packages, unless it is unknown or the system's.
    pub fn dir(&self) -> Option<&Path> {
        match self {
            Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root),
            Site::Directory { dir, .. } | Site::NewEnvironment { dir, .. } | Site::User { base: dir, .. } => Some(dir),
            Site::OnPath | Site::System => None,
        }
    }

    /// Returns the root of the environment with the Python that changes the packages.
    pub fn python_root(&self) -> Option<&Path> {
        match self {
            Site::Environment(root) | Site::Directory { pip: Pip::Environment(root), .. } => Some(root),
            _ => None,
        }
    }

    /// Returns the directories that contain pip's records of the packages.
    pub fn package_dirs(&self) -> Vec<PathBuf> {
        match self {
            Site::Environment(root) | Site::Interpreter { root, .. } => {
                self.debian_dir().into_iter().chain(site_packages(root)).collect()
            }
            Site::Directory { dir, .. } | Site::NewEnvironment { dir, .. } | Site::User { dir, .. } => {
                vec![dir.clone()]
            }
            Site::OnPath | Site::Conda(_) | Site::System => Vec::new(),
        }
    }

    /// Returns the Python whose pip changes the packages, if the site is an environment.
    pub(super) fn interpreter(&self) -> Option<Interpreter> {
        match self {
            Site::Environment(root) => Some(Interpreter::in_environment(root)),
            Site::Interpreter { program, root } => Some(Interpreter { program: program.clone(), root: root.clone() }),
            _ => None,
        }
    }

    /// Returns the directory where the pip of Debian's Python installs packages, even if it is missing.
    pub(crate) fn debian_dir(&self) -> Option<PathBuf> {
        let python = self.interpreter()?;
        debian_dir(&python.program, &python.root)
    }

    /// Returns the directories in which the installer may add packages, without those of the environment's other
    /// Pythons. pip uses the first one. The Pythons of some Linux distributions write below `/usr/local` instead of `/usr`.
    pub fn written_dirs(&self) -> Vec<PathBuf> {
        if let Some(dir) = self.debian_dir() {
            return vec![dir];
        }
        match (self, self.interpreter()) {
            (Site::Conda(root), _) => vec![root.clone()],
            (_, Some(python)) => {
                let is_known = python.version().is_some();
                let mut dirs = if is_known { python.package_dirs().collect() } else { self.package_dirs() };
                // Missing directories matter only if all are missing.
                if dirs.iter().any(|dir| dir.leads_to_dir()) {
                    dirs.retain(|dir| dir.leads_to_dir());
                }
                let local = python.root.join("local");
                let is_of_distribution = !is_virtual(&python.root) && local.leads_to_dir();
                dirs.into_iter().chain(is_of_distribution.then_some(local)).collect()
            }
            (_, None) => self.package_dirs(),
        }
    }

    /// Returns the directory of the user's packages, if they are changed.
    pub(crate) fn user_packages(&self) -> Option<PathBuf> {
        if let Site::User { dir, .. } = self { Some(dir.clone()) } else { None }
    }

    /// Returns the environment whose Python imports the packages. `None` if it is unknown.
    pub fn environment(&self) -> Option<Environment> {
        let host = Host::current();
        match self {
            Site::Interpreter { program, root } => Some(Environment::from_python(program, root, &host)),
            Site::User { program, .. } => Some(Environment::from_python(program, root_of(program)?, &host)),
            Site::Environment(root) | Site::Directory { dir: root, .. } => Some(Environment::at(root, &host)),
            Site::NewEnvironment { .. } | Site::OnPath | Site::Conda(_) | Site::System => None,
        }
    }

    /// Returns whether this is `/usr/local`, and the other site Debian's Python, whose pip installs here.
    fn is_filled_from(&self, other: &Site) -> bool {
        other.debian_dir().is_some_and(|dir| self.written_dirs().first() == Some(&dir))
    }

    /// Combines two sites with the same directory and the same installer; their options are merged. `None` if they
    /// differ.
    pub(crate) fn merged_with(&self, other: &Site) -> Option<Site> {
        match (self, other) {
            _ if self == other => Some(self.clone()),
            // A link may lead to the environment.
            (Site::Environment(root), Site::Environment(other)) | (Site::Conda(root), Site::Conda(other))
                if real_path(root) == real_path(other) =>
            {
                Some(self.clone())
            }
            (Site::Environment(_), Site::Environment(_)) if self.is_filled_from(other) => Some(other.clone()),
            (Site::Environment(_), Site::Environment(_)) if other.is_filled_from(self) => Some(self.clone()),
            (Site::User { dir, .. }, Site::User { dir: other, .. }) if dir == other => Some(self.clone()),
            (Site::Directory { dir, pip, options }, Site::Directory { dir: other, pip: by, options: more })
                if dir == other && pip == by =>
            {
                let more = more.iter().filter(|option| !options.contains(option));
                let options = options.iter().chain(more).copied().collect();
                Some(Site::Directory { dir: dir.clone(), pip: pip.clone(), options })
            }
            _ => None,
        }
    }

    pub(crate) fn recorded_version(&self, wheel: &str) -> Option<String> {
        recorded_version(self.package_dirs(), wheel)
    }
}

/// The packages to remove and to install in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageChange {
    /// The place of the packages.
    pub site: Site,
    /// Packages to remove. A package with two records is listed twice.
    pub remove: Vec<String>,
    /// Requirements to reinstall, without their dependencies.
    pub reinstall: Vec<String>,
    /// Requirements to install.
    pub install: Vec<String>,
    /// Installs first and removes afterwards, to preserve the old files if the installation fails. The removed and the
    /// installed packages must contain different files.
    pub(crate) removes_last: bool,
    /// Reinstalls dependencies too, because a build for a different device needs different ones.
    pub(crate) with_dependencies: bool,
}

impl PackageChange {
    /// Returns an empty change of this site.
    pub fn of(site: Site) -> Self {
        let (remove, reinstall, install) = Default::default();
        PackageChange { site, remove, reinstall, install, removes_last: false, with_dependencies: false }
    }

    /// Adds requirements to install.
    pub fn install(mut self, requirements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.install.extend(requirements.into_iter().map(Into::into));
        self
    }

    pub(crate) fn only_reinstalls(&self) -> bool {
        self.remove.is_empty() && self.install.is_empty() && !self.with_dependencies
    }

    /// Adds requirements to reinstall.
    pub fn reinstall(mut self, requirements: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.reinstall.extend(requirements.into_iter().map(Into::into));
        self
    }

    /// Adds packages to remove.
    pub fn remove(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.remove.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the requirements of packages that the change installs or reinstalls.
    pub(super) fn installed(&self) -> impl Iterator<Item = &String> {
        self.install.iter().chain(&self.reinstall)
    }

    /// Returns whether the change may install files in this directory of NVIDIA's wheels: `nvidia`, a directory in it,
    /// or the `lib` of one. Other packages may depend on any wheel.
    pub(crate) fn may_fill(&self, dir: &Path) -> bool {
        let wheels = self.installed_with_dependencies();
        let is_of = |wanted: &String| !wanted.starts_with(NVIDIA_PREFIX) || is_of_wheel(dir, wanted);
        self.installs_any() && (dir.ends_with("nvidia") || wheels.iter().any(is_of))
    }

    /// Returns the existing directories in which the installer adds or removes files: those of packages in general, and
    /// those of NVIDIA's wheels.
    pub fn changed_dirs(&self) -> Vec<PathBuf> {
        let mut wheels = self.installed_with_dependencies();
        wheels.retain(|wanted| wanted.starts_with(NVIDIA_PREFIX));
        let is_of_new = |dir: &PathBuf| !wheels.is_empty() && dir.ends_with("nvidia");
        let is_of_any = |dir: &PathBuf| wheels.iter().chain(&self.remove).any(|wheel| is_of_wheel(dir, wheel));
        let written = self.site.written_dirs();
        let of_wheels = written.iter().flat_map(|site| dirs_of_wheels(site));
        let of_wheels = of_wheels.filter(|dir| is_of_new(dir) || is_of_any(dir)).collect::<Vec<_>>();
        written.into_iter().chain(of_wheels).filter(|dir| dir.leads_to_dir()).collect()
    }

    /// Returns the requirements of packages that the change installs, with NVIDIA's wheels that they require.
    fn installed_with_dependencies(&self) -> Vec<String> {
        let required = self.install.iter().filter_map(|one| contents::wheel(one)).flat_map(|wheel| wheel.requires);
        self.installed().cloned().chain(required).collect()
    }

    /// Describes a link as a clause, if it makes the installer fail or leave files of replaced packages. pip removes no
    /// files outside an environment.
    pub fn refused_link(&self) -> Option<String> {
        let dirs = self.site.package_dirs();
        if let Some(lost) = dirs.iter().find(|dir| dir.is_link() && !dir.target_exists()) {
            return Some(format!("the link {} leads nowhere", lost.printable()));
        }
        // `/usr/local` may be a link.
        let of_debian = self.site.debian_dir();
        let dirs: Vec<PathBuf> = dirs.into_iter().filter(|dir| Some(dir) != of_debian.as_ref()).collect();
        let mut installed = self.installed().map(|one| package_name(one));
        let replaces = !self.remove.is_empty() || installed.any(|name| self.site.recorded_version(name).is_some());
        self.site.dir().filter(|_| replaces).and_then(|root| link_out_of(root, &dirs))
    }

    /// Explains why not even root can make the change: the removed packages, or all directories for installations, are
    /// on a read-only file system.
    pub(crate) fn read_only_dir(&self) -> Option<String> {
        let is_removed = |record: &PackageRecord| self.remove.contains(&record.name);
        let all = self.site.package_dirs();
        let closed = all.into_iter().find(|dir| pip_records(dir).iter().any(is_removed) && is_read_only(dir));
        let written = self.site.written_dirs();
        let is_closed = self.installs_any() && written.iter().all(|dir| is_read_only(dir));
        closed.or_else(|| written.into_iter().next().filter(|_| is_closed)).map(|dir| explain_read_only(&dir))
    }

    pub(crate) fn installs_any(&self) -> bool {
        self.installed().next().is_some()
    }

    /// Returns the packages that are installed together with their requirements.
    pub(super) fn with_requirements(&self) -> impl Iterator<Item = &String> {
        let is_apart = matches!(&self.site, Site::Directory { options, .. } if options.contains(&"--no-deps"));
        let again = self.reinstall.iter().filter(|_| self.with_dependencies);
        self.install.iter().chain(again).filter(move |_| !is_apart)
    }

    /// Returns whether the change installs this package.
    pub fn installs(&self, name: &str) -> bool {
        self.installed().any(|one| package_name(one) == name)
    }

    /// Returns whether one change can do the work of both. This fails if they affect different places, if one removes a
    /// package that the other installs, or if no version satisfies both.
    pub(crate) fn is_compatible_with(&self, other: &PackageChange) -> bool {
        let keeps = |one: &PackageChange, other: &PackageChange| {
            one.remove.iter().all(|name| one.installs(name) || !other.installs(name))
        };
        let agree = |ours: &[String], theirs: &[String]| {
            let pairs = ours.iter().flat_map(|one| theirs.iter().map(move |other| (one, other)));
            { pairs }.all(|(one, other)| package_name(one) != package_name(other) || stricter(one, other).is_some())
        };
        self.site.merged_with(&other.site).is_some()
            && keeps(self, other)
            && keeps(other, self)
            && agree(&self.install, &other.install)
            && agree(&self.reinstall, &other.reinstall)
    }

    /// Adds a compatible change of the same place. If both require a package, the stricter requirement wins. A package
    /// is reinstalled if the present version satisfies the new requirement.
    pub(crate) fn merge(&mut self, other: &PackageChange) {
        let count = |names: &[String], name: &String| names.iter().filter(|other| *other == name).count();
        let allows_last = |change: &PackageChange| change.removes_last || change.remove.is_empty();
        let may_remove_last = allows_last(self) && allows_last(other);
        self.with_dependencies |= other.with_dependencies;
        if let Some(site) = self.site.merged_with(&other.site) {
            self.site = site;
        }
        for name in &other.remove {
            if count(&self.remove, name) < count(&other.remove, name) {
                self.remove.push(name.clone());
            }
        }
        for (own, others) in [(&mut self.install, &other.install), (&mut self.reinstall, &other.reinstall)] {
            for requirement in others {
                match own.iter_mut().find(|own| package_name(own) == package_name(requirement)) {
                    Some(own) => *own = stricter(own, requirement).unwrap_or(own).to_owned(),
                    None => own.push(requirement.clone()),
                }
            }
        }
        let is_satisfied = |again: &String, wanted: &String| {
            package_name(again) == package_name(wanted) && stricter(again, wanted) == Some(again)
        };
        self.install.retain(|wanted| !self.reinstall.iter().any(|again| is_satisfied(again, wanted)));
        self.reinstall.retain(|again| !self.install.iter().any(|wanted| package_name(wanted) == package_name(again)));
        // A package that was just installed must not be removed last.
        self.removes_last = may_remove_last && !self.remove.iter().any(|name| self.installs(name));
    }
}

/// Returns whether this wheel of NVIDIA has files in a directory below `nvidia`, or in its `lib`.
fn is_of_wheel(dir: &Path, wheel: &str) -> bool {
    let is_part = ["bin", "include", "lib"].iter().any(|name| dir.ends_with(name));
    let dir = if is_part { dir.parent().unwrap_or(dir) } else { dir };
    let name = dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_shared = name.strip_prefix("cu").is_some_and(|cuda| cuda.parse::<u32>().is_ok());
    let wheel = package_name(wheel);
    wheel.starts_with(NVIDIA_PREFIX) && dir_of_wheel(wheel).map_or(is_shared, |own| own == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> PackageChange {
        PackageChange::of(Site::Environment("/nowhere".into()))
    }

    #[test]
    fn changes_of_the_same_place_are_merged() {
        let mut all = change().reinstall(["a==1", "b==1"]).remove(["x", "x"]);
        all.merge(&change().install(["a>=2", "b", "c"]).remove(["x", "y"]));
        all.merge(&change().install(["c==3"]).reinstall(["d"]));
        assert_eq!(all.reinstall, ["b==1", "d"]);
        assert_eq!(all.install, ["a>=2", "c==3"]);
        assert_eq!(all.remove, ["x", "x", "y"]);
    }

    #[test]
    fn contradicting_changes_are_incompatible() {
        let replacement = change().remove(["x", "y"]).install(["x==2"]);
        for (one, other, expected) in [
            (change().remove(["x"]), change().install(["x"]), false),
            (change().remove(["x"]), change().reinstall(["x==1"]), false),
            (replacement.clone(), change().install(["x>=1"]), true),
            (replacement.clone(), change().install(["y"]), false),
            (change().install(["x==1"]), replacement, false),
            (change().reinstall(["x==1"]), change().reinstall(["x==2"]), false),
            (change().reinstall(["x==1"]), change().install(["x>=2"]), true),
        ] {
            assert_eq!(one.is_compatible_with(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.is_compatible_with(&one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn wheels_fill_their_directories_and_those_of_required_wheels() {
        for (change, expected) in [
            (change().reinstall(["nvidia-cudnn-cu12==9.19.0.56"]), &["cudnn"][..]),
            (change().install(["nvidia-cudnn-cu12>=9.18"]), &["cublas", "cudnn"]),
            (change().install(["nvidia-cudnn-jit-cu13"]), &["cu13", "cudnn_jit"]),
            (change().reinstall(["nvidia-cuda-nvrtc==13.*"]), &["cu13"]),
            (change().reinstall(["nvidia-cuda-nvrtc-cu12"]), &["cuda_nvrtc"]),
            (change().install(["torch"]), &["cu13", "cublas", "cuda_nvrtc", "cudnn", "cudnn_jit"]),
            (change().remove(["nvidia-cudnn-cu12"]), &[]),
        ] {
            let dirs = ["cu13", "cublas", "cuda_nvrtc", "cudnn", "cudnn_jit"];
            let found =
                dirs.into_iter().filter(|dir| change.may_fill(&Path::new("/site/nvidia").join(dir).join("lib")));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{change:?}");
        }
    }

    #[test]
    fn an_installed_package_is_not_removed_last() {
        let mut all = PackageChange { removes_last: true, ..change().remove(["x"]).install(["y"]) };
        let other = change().remove(["y"]).install(["y"]);
        all.merge(&PackageChange { removes_last: true, ..other });
        assert!(!all.removes_last, "{all:?}");
    }

    #[test]
    #[cfg(all(test, unix))]
    fn an_environment_has_one_step_under_two_names() {
        let dir = tempfile::tempdir().unwrap();
        let [root, link, other] = ["env", "link", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let [root, link, other] = [root, link, other].map(Site::Environment);
        assert_eq!(link.merged_with(&root), Some(link.clone()));
        assert_eq!(link.merged_with(&other), None);
    }

    #[test]
    fn options_of_the_same_directory_are_merged() {
        let site =
            |options: &[&'static str]| Site::Directory { dir: "/d".into(), pip: Pip::Any, options: options.to_vec() };
        let merged_with = site(&["--upgrade"]).merged_with(&site(&["--upgrade", "--no-deps"]));
        assert_eq!(merged_with, Some(site(&["--upgrade", "--no-deps"])));
        assert_eq!(site(&[]).merged_with(&Site::System), None);
    }
}
