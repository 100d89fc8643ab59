//! Finds or installs the CUDA libraries that cuDNN opens by name.

use cudnn_probe::facts::PathFacts;
use std::path::{Component as PathPart, Path, PathBuf};

use cudnn_frameworks::installation::{self, InstallationReport, LibraryReport};
use cudnn_probe::{Component, Origin, ld_so};

use super::common::{apart_dir, by_change, no_place, site_packages};
use crate::check::nvrtc::has_builtins;
use crate::context::Context;
use crate::escape::Printable;
use crate::packages::{self, PackageNames};
use crate::remedy::Remedy;
use crate::system::LOADER;

/// The directory where CUDA toolkits are installed.
const CUDA_PREFIX: &str = "/usr/local";

/// A CUDA library that cuDNN opens by name, and that ld.so does not find or finds with missing dependencies.
pub(in crate::check) struct Companion<'a> {
    /// `libnvrtc.so.12`.
    pub(in crate::check) name: &'a str,
    pub(in crate::check) cuda_major: u32,
    /// The cuDNN library that opens it.
    pub(in crate::check) opener: &'a LibraryReport,
    /// The incomplete file that ld.so finds now.
    pub(in crate::check) incomplete: Option<&'a Path>,
}

impl Companion<'_> {
    /// Returns whether this directory contains the library and all of its dependencies.
    fn is_in(&self, dir: &Path, context: &Context) -> bool {
        let file = dir.join(self.name);
        let is_incomplete = self.incomplete.and_then(Path::parent) == Some(dir)
            || self.incomplete.is_some() && self.name.starts_with("libnvrtc") && !has_builtins(&file, self.cuda_major);
        !is_incomplete && file.leads_to_file() && context.simulation(&file).is_ok()
    }

    /// Makes the library available to this cuDNN.
    pub(in crate::check) fn help(&self, report: &InstallationReport, context: &Context) -> Remedy {
        let (name, cuda_major) = (self.name, self.cuda_major);
        let Some((component, _)) = Component::from_soname(name) else { return Remedy::new(format!("install {name}")) };
        let (wheel_dir, apart) = (component.wheel_dir(cuda_major), apart_dir(component, cuda_major));
        // The directories that may contain the library even though ld.so does not find it.
        let mut dirs: Vec<PathBuf> = site_packages(report).into_iter().map(|site| site.join(&wheel_dir)).collect();
        dirs.extend(toolkits(cuda_major));
        for root in context.search.environments().iter().filter_map(Origin::root) {
            dirs.extend(installation::site_packages(root).map(|site| site.join(&wheel_dir)));
            dirs.push(root.join("lib"));
        }
        dirs.extend(apart.iter().map(|apart| apart.join(&wheel_dir)));
        if let Some(dir) = dirs.into_iter().find(|dir| self.is_in(dir, context)) {
            let text = format!("it is in {}: have {LOADER} search that directory:", dir.printable());
            return Remedy::new(text).search(&dir);
        }
        // The run path of a cuDNN wheel leads to neighboring wheels, and system packages find the system's libraries.
        let text = format!("install {component} for CUDA {cuda_major}");
        let beside = |package| packages::install_beside(package, component, cuda_major, report.cuda_minor);
        if let Some(change) = report.package.as_ref().and_then(beside) {
            let dir = site_packages(report).map(|site| site.join(wheel_dir));
            let dir = dir.filter(|dir| self.incomplete.is_some() || !self.searches(dir, context));
            let remedy = by_change(format!("{text} next to this cuDNN:"), change);
            return dir.iter().fold(remedy, |remedy, dir| remedy.search(dir));
        }
        let Some(apart) = apart else { return no_place() };
        let text = format!("{text}, and have {LOADER} search its directory");
        match packages::install_apart(component, cuda_major, &apart) {
            Some((change, dir)) => by_change(format!("{text}:"), change).search(&dir),
            None => Remedy::new(text),
        }
    }

    /// Returns whether the run path of the opening library includes this directory.
    fn searches(&self, dir: &Path, context: &Context) -> bool {
        let run_path = ld_so::run_path(&self.opener.path, &context.host).unwrap_or_default();
        run_path.iter().any(|searched| normalized(searched) == dir)
    }
}

/// Removes `..` from a path textually, because the directory need not exist yet.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == PathPart::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

/// Returns the library directories of the installed toolkits for this CUDA major.
fn toolkits(cuda_major: u32) -> Vec<PathBuf> {
    let is_toolkit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "cuda" || name.starts_with(&format!("cuda-{cuda_major}"))
    };
    let roots = packages::entries(Path::new(CUDA_PREFIX)).filter(is_toolkit);
    let mut dirs: Vec<PathBuf> = roots.map(|root| root.join("lib64")).collect();
    dirs.sort();
    dirs
}
