//! Provides the facts for checking one framework.

use cudnn_frameworks::installation::{InstallationReport, Installer, Package, is_virtual};
use cudnn_frameworks::{
    Damaged, Distribution, Framework, OpenedFile, Repair, Survey, Unreadable, pip_records, real_path,
};
use cudnn_probe::facts::PathFacts;
use cudnn_probe::python::{is_package_dir, root_of_packages};
use cudnn_probe::{Host, Library, Os};
use std::path::{Path, PathBuf};

use super::text;
use crate::check::machine::Machine;
use crate::check::wheel_choice::{WheelChoice, choose_wheel};
use crate::packages::{self, PackageChange, Pip, Site, python_in};

#[derive(Clone, Copy)]
pub(super) struct FrameworkContext<'a> {
    pub(super) framework: &'a Framework,
    pub(super) survey: &'a Survey,
    pub(super) machine: &'a Machine,
    pub(super) host: &'a Host,
    /// The installation with the graph library that the framework would load.
    pub(super) report: Option<&'a InstallationReport>,
}

impl FrameworkContext<'_> {
    pub(super) fn title(&self) -> String {
        text::title(self.framework)
    }

    pub(super) fn cuda_major(&self) -> Option<u32> {
        self.framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0)
    }

    pub(super) fn site(&self) -> Site {
        site_of(self.framework, self.survey)
    }

    pub(super) fn choose_wheel(&self) -> Result<WheelChoice, String> {
        choose_wheel(&self.survey.frameworks, self.machine)
    }

    /// Returns whether a file is in the environment that imports the framework, or that contains it.
    pub(super) fn is_beside(&self, opened: &OpenedFile) -> bool {
        let dirs = [&self.survey.environment.root, &self.framework.distribution.import_dir];
        dirs.iter().any(|dir| opened.path.starts_with(dir))
    }

    /// Returns whether part of the framework's directory is unreadable, which C080 reports.
    pub(super) fn is_closed(&self) -> bool {
        let Some(dir) = &self.framework.dir else { return false };
        self.survey.unreadable.iter().any(|one| is_closed(one) && one.path.starts_with(dir))
    }

    pub(super) fn owns(&self, damaged: &Damaged) -> bool {
        let Some(dir) = &self.framework.dir else { return false };
        let libs = format!("{}.libs", self.framework.distribution.name.replace('-', "_"));
        let file = real_path(&damaged.path);
        [dir, &dir.parent().unwrap_or(dir).join(libs)].iter().any(|dir| file.starts_with(real_path(dir)))
    }
}

/// Returns the CPU build for a GPU build in the same directory, or the reverse. The build installed last has
/// overwritten the other.
pub(super) fn other_build<'a>(framework: &Framework, survey: &'a Survey) -> Option<&'a Framework> {
    let is_cpu = |framework: &Framework| framework.kind.is_cpu_package(&framework.distribution.name);
    let has_same_dir = |other: &Framework| framework.dir.is_some() && other.dir == framework.dir;
    survey.frameworks.iter().find(|other| {
        std::ptr::eq(other.kind, framework.kind) && has_same_dir(other) && is_cpu(other) != is_cpu(framework)
    })
}

pub(super) fn is_closed(one: &Unreadable) -> bool {
    one.repair == Some(Repair::Allow)
}

pub(super) fn graph(framework: &Framework) -> Option<&OpenedFile> {
    framework.opens.cudnn.iter().find(|opened| is_graph(&opened.name))
}

pub(super) fn dir_of_graph(framework: &Framework) -> Option<PathBuf> {
    cudnn_probe::canonicalize(graph(framework)?.path.parent()?).ok()
}

pub(super) fn is_graph(name: &str) -> bool {
    name.starts_with("libcudnn_graph.") || name == Library::Graph.windows_name()
}

/// Returns the place that the framework's libraries search relative to, which may differ from the environment that
/// imports it.
pub(super) fn site_of(framework: &Framework, survey: &Survey) -> Site {
    let Distribution { import_dir, info_dir, is_editable, .. } = &framework.distribution;
    let root = &survey.environment.root;
    if is_package_dir(import_dir) {
        return Site::Environment(root_of(import_dir, root).unwrap_or_else(|| root.clone()));
    }
    if *is_editable || info_dir.ends_with("EGG-INFO") {
        return Site::Environment(root.clone());
    }
    // A directory given by the user contains no Python.
    let pip = if root == import_dir { Pip::Any } else { Pip::Environment(root.clone()) };
    Site::Directory { dir: import_dir.clone(), pip, options: vec!["--upgrade", "--no-deps"] }
}

/// Returns the root of the user's packages or of the base Python, if a virtual environment imports packages from there.
fn root_of(site: &Path, root: &Path) -> Option<PathBuf> {
    let is_in = |root: &Path| site.starts_with(root) || real_path(site).starts_with(real_path(root));
    if is_in(root) || !is_virtual(root) {
        return None;
    }
    let user = packages::user_base().filter(|base| is_in(base));
    let base = || cudnn_probe::python::base_python(root).filter(|base| is_in(base));
    let other = || root_of_packages(site, Os::HOST).filter(|root| python_in(root).leads_to_file()).map(Path::to_owned);
    user.or_else(base).or_else(other)
}

/// Reinstalls one release of a package. Returns `None` for a package that only a private index has.
pub(super) fn reinstall_package(site: &Site, name: &str, version: &str) -> Option<PackageChange> {
    match site {
        Site::Environment(root) => packages::reinstall(&Package::new(Installer::Pip, name, Some(version), root)),
        _ if version.contains('+') => None,
        _ => PackageChange::of(site.clone()).reinstall([format!("{name}=={version}")]).possible(),
    }
}

pub(super) fn has_record(dir: &Path, name: &str) -> bool {
    pip_records(dir).iter().any(|record| record.name == name)
}
