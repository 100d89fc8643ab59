//! Finds where a framework's packages are installed: in an environment, or in a directory that `pip install --target`
//! filled and that `PYTHONPATH` or a `.pth` file lists.

use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{Installer, Package, is_virtual};
use cudnn_frameworks::{Distribution, Framework, Survey, real_path};
use cudnn_probe::Os;

use crate::packages::{self, PackageChange, Pip, Site, records};
use crate::platform::python_in;

/// Returns the place that the framework's libraries search relative to, which may differ from the environment that
/// imports it.
pub(super) fn site_of(framework: &Framework, survey: &Survey) -> Site {
    let Distribution { import_dir, info_dir, is_editable, .. } = &framework.distribution;
    let is_site = import_dir.ends_with("site-packages") || import_dir.ends_with("dist-packages");
    let root = &survey.environment.root;
    if is_site {
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
    let other = || environment_with(site).filter(|root| python_in(root).leads_to_file()).map(Path::to_owned);
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
    records(dir).iter().any(|record| record.name == name)
}

/// Returns the root of the environment with this directory of packages: `lib/python3.12/site-packages`, or
/// `Lib/site-packages` on Windows.
pub(super) fn environment_with(site: &Path) -> Option<&Path> {
    site.ancestors().nth(if Os::HOST == Os::Windows { 2 } else { 3 })
}
