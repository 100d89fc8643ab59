//! A change of the packages in one place, as data. Several changes of one place can become one.

use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::site_packages;

use super::command::Command;
use super::pip::recorded_version;
use super::requirement::{package_name, stricter};

/// A place that has packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// A Python environment, by its root.
    Environment(PathBuf),
    /// The environment at `root`, which has several Pythons, by this one.
    Interpreter { program: PathBuf, root: PathBuf },
    /// The environment of the `pip` on `PATH`.
    OnPath,
    /// A directory that `pip install --target` fills, with these options.
    Directory { dir: PathBuf, pip: Pip, options: Vec<&'static str> },
    /// A virtual environment that does not exist yet, by the Python that makes it, for which the system has to install
    /// something first.
    NewEnvironment { dir: PathBuf, program: PathBuf, needed: Option<Command> },
    /// A conda environment, by its root.
    Conda(PathBuf),
    /// The system, by apt.
    System,
}

/// The pip that fills a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pip {
    /// Any, since the Python of the directory is not known: for NVIDIA's wheels, which are for all Pythons.
    Any,
    /// That of the environment at this root.
    Environment(PathBuf),
    /// That of this Python.
    Interpreter(PathBuf),
}

impl Site {
    /// The directory that belongs to whoever may change the packages; `None` if it is not known, or the system's.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Site::Environment(root) | Site::Interpreter { root, .. } | Site::Conda(root) => Some(root),
            Site::Directory { dir, .. } | Site::NewEnvironment { dir, .. } => Some(dir),
            Site::OnPath | Site::System => None,
        }
    }

    /// The root of the environment whose Python changes the packages.
    pub(crate) fn python_root(&self) -> Option<&Path> {
        match self {
            Site::Environment(root) | Site::Directory { pip: Pip::Environment(root), .. } => Some(root),
            _ => None,
        }
    }

    /// The directories in which pip records the packages.
    pub(crate) fn package_dirs(&self) -> Vec<PathBuf> {
        match self {
            Site::Environment(root) | Site::Interpreter { root, .. } => site_packages(root).collect(),
            Site::Directory { dir, .. } | Site::NewEnvironment { dir, .. } => vec![dir.clone()],
            Site::OnPath | Site::Conda(_) | Site::System => Vec::new(),
        }
    }

    /// The place that stands for both of these, if they are one place: the same directory by the same installer. Options add
    /// up.
    pub(crate) fn merged_with(&self, other: &Site) -> Option<Site> {
        match (self, other) {
            _ if self == other => Some(self.clone()),
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

    /// The version of a wheel that pip has a record of there.
    pub(crate) fn recorded_version(&self, wheel: &str) -> Option<String> {
        recorded_version(self.package_dirs(), wheel)
    }
}

/// What one place gets and loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackageChange {
    pub(crate) site: Site,
    /// The names of packages to remove, once for each record.
    pub(crate) remove: Vec<String>,
    /// Requirements whose files are installed again, and those of no other package.
    pub(crate) reinstall: Vec<String>,
    /// Requirements to install.
    pub(crate) install: Vec<String>,
    /// What is removed has no file in common with what is installed: it goes last, so that a failure leaves it.
    pub(crate) removes_last: bool,
    /// What is installed again has its dependencies installed again, too: a build for another device needs others.
    pub(crate) with_dependencies: bool,
    /// Packages among these that apt holds (`apt-mark hold`).
    pub(crate) held: Vec<String>,
}

impl PackageChange {
    pub(crate) fn of(site: Site) -> Self {
        let (remove, reinstall, install, held) = Default::default();
        PackageChange { site, remove, reinstall, install, removes_last: false, with_dependencies: false, held }
    }

    pub(crate) fn install(mut self, requirements: impl IntoIterator<Item = String>) -> Self {
        self.install.extend(requirements);
        self
    }

    pub(crate) fn reinstall(mut self, requirements: impl IntoIterator<Item = String>) -> Self {
        self.reinstall.extend(requirements);
        self
    }

    pub(crate) fn remove(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.remove.extend(names);
        self
    }

    /// Does the change replace packages by others?
    pub(crate) fn is_replacement(&self) -> bool {
        !self.remove.is_empty()
    }

    fn installed(&self) -> impl Iterator<Item = &String> {
        self.install.iter().chain(&self.reinstall)
    }

    /// Does the change install this package?
    pub(crate) fn installs(&self, name: &str) -> bool {
        self.installed().any(|one| package_name(one) == name)
    }

    /// Can this change and the other one become one that does what both are for? They cannot if they are of two places, if
    /// one removes what the other installs, or if no version satisfies both.
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

    /// Adds another change of the same place, which agrees with this one. Of two requirements of one package, the stricter one
    /// stays. A package is installed again if the version that is there satisfies what is to be installed.
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
        // apt has no ranges: a name alone asks for the newest version.
        let is_newest = |wanted: &String| self.site == Site::System && package_name(wanted) == wanted;
        let is_satisfied = |again: &String, wanted: &String| {
            !is_newest(wanted) && package_name(again) == package_name(wanted) && stricter(again, wanted) == Some(again)
        };
        self.install.retain(|wanted| !self.reinstall.iter().any(|again| is_satisfied(again, wanted)));
        self.reinstall.retain(|again| !self.install.iter().any(|wanted| package_name(wanted) == package_name(again)));
        // What is removed last must not be what was installed first.
        self.removes_last = may_remove_last && !self.remove.iter().any(|name| self.installs(name));
        let held = other.held.iter().filter(|name| !self.held.contains(name)).cloned().collect::<Vec<_>>();
        self.held.extend(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn change() -> PackageChange {
        PackageChange::of(Site::Environment("/nowhere".into()))
    }

    #[test]
    fn two_changes_of_one_place_become_one() {
        let mut all = change().reinstall(names(&["a==1", "b==1"])).remove(names(&["x", "x"]));
        all.merge(&change().install(names(&["a>=2", "b", "c"])).remove(names(&["x", "y"])));
        all.merge(&change().install(names(&["c==3"])).reinstall(names(&["d"])));
        assert_eq!(all.reinstall, names(&["b==1", "d"]));
        assert_eq!(all.install, names(&["a>=2", "c==3"]));
        assert_eq!(all.remove, names(&["x", "x", "y"]));
    }

    #[test]
    fn changes_that_contradict_each_other_do_not_agree() {
        let replacement = change().remove(names(&["x", "y"])).install(names(&["x==2"]));
        for (one, other, expected) in [
            (change().remove(names(&["x"])), change().install(names(&["x"])), false),
            (change().remove(names(&["x"])), change().reinstall(names(&["x==1"])), false),
            (replacement.clone(), change().install(names(&["x>=1"])), true),
            (replacement.clone(), change().install(names(&["y"])), false),
            (change().install(names(&["x==1"])), replacement, false),
            (change().reinstall(names(&["x==1"])), change().reinstall(names(&["x==2"])), false),
            (change().reinstall(names(&["x==1"])), change().install(names(&["x>=2"])), true),
        ] {
            assert_eq!(one.is_compatible_with(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.is_compatible_with(&one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn what_was_installed_is_not_removed_last() {
        let mut all = PackageChange { removes_last: true, ..change().remove(names(&["x"])).install(names(&["y"])) };
        let other = change().remove(names(&["y"])).install(names(&["y"]));
        all.merge(&PackageChange { removes_last: true, ..other });
        assert!(!all.removes_last, "{all:?}");
    }

    #[test]
    fn one_directory_is_one_place_whatever_the_options() {
        let site =
            |options: &[&'static str]| Site::Directory { dir: "/d".into(), pip: Pip::Any, options: options.to_vec() };
        let merged_with = site(&["--upgrade"]).merged_with(&site(&["--upgrade", "--no-deps"]));
        assert_eq!(merged_with, Some(site(&["--upgrade", "--no-deps"])));
        assert_eq!(site(&[]).merged_with(&Site::System), None);
    }
}
