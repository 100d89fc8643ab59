//! Provides helpers that several remedies share, such as directories to install into.

use std::path::{Path, PathBuf};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_frameworks::installation::{self, InstallationReport, Installer, Package};
use cudnn_frameworks::real_path;
use cudnn_probe::{Component, DEFAULT_CUDA_MAJOR};

use crate::packages::{self, PackageChange, dangling_dirs, named_data_dir};
use crate::remedy::{Action, Effect, Remedy, Variable};
use crate::system::LOADER;

pub(crate) fn by_change(text: impl Into<String>, change: PackageChange) -> Remedy {
    let effect = if moves_wheels(&change) { Effect::OtherDir } else { Effect::SameDir };
    let remedy = Remedy::new(text).effect(effect);
    let mut links = if change.installs_any() { dangling_dirs(change.site.package_dirs()) } else { Vec::new() };
    links.retain(|dir| change.may_fill(dir));
    let removal = (!links.is_empty()).then_some(Action::Remove(links));
    remedy.actions(removal).change(change)
}

pub(in crate::check) fn search_first(dir: &Path) -> Remedy {
    Remedy::new(format!("have {LOADER} search {} first:", dir.printable())).search(dir)
}

/// Returns whether this change replaces a cuDNN wheel with one in a different directory, such as JIT-only with full.
fn moves_wheels(change: &PackageChange) -> bool {
    let [jit, full] = ["nvidia-cudnn-jit-", "nvidia-cudnn-cu"];
    let has = |names: &[String], prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    let moves = |(old, new)| has(&change.remove, old) && has(&change.install, new) && !has(&change.install, old);
    [(jit, full), (full, jit)].into_iter().any(moves)
}

pub(super) fn all_packages(report: &InstallationReport) -> Vec<Package> {
    report.package.iter().chain(&report.other_packages).cloned().collect()
}

pub(super) fn names(packages: &[Package]) -> String {
    let mut names: Vec<String> = packages.iter().map(|package| package.name.printable()).collect();
    names.dedup();
    names.join(" and ")
}

pub(super) fn cuda_major(report: &InstallationReport) -> u32 {
    report.cuda_major.filter(|major| packages::CUDA_MAJORS.contains(major)).unwrap_or(DEFAULT_CUDA_MAJOR)
}

/// Returns the directory of packages that contains a wheel's libraries, in `nvidia/cudnn/lib` or `torch/lib` for
/// example. It may be a link, or contain links.
pub(super) fn site_packages(report: &InstallationReport) -> Option<PathBuf> {
    let package = report.package.as_ref().filter(|package| package.installer == Installer::Pip)?;
    let is_below = |dir: &Path| report.dir.starts_with(real_path(dir));
    installation::site_packages(&package.root).find(|site| is_below(site) || is_below(&site.join("nvidia")))
}

/// Resolves the symbolic links in the existing part of a path.
pub(super) fn real_place(dir: &Path) -> PathBuf {
    let real = |above: &Path| Some(cudnn_probe::canonicalize(above).ok()?.join(dir.strip_prefix(above).ok()?));
    dir.ancestors().find_map(real).unwrap_or_else(|| dir.to_owned())
}

/// Returns the remedy for a user without a writable directory for a separate installation, as with `docker run --user`.
pub(super) fn no_place() -> Remedy {
    Remedy::new(format!(
        "this user has no writable home directory and no sudo for /opt: set HOME to a writable directory (`export \
         HOME=\"$(mktemp -d)\"`), and run `{} check` again to get the commands",
        doctor()
    ))
}

/// Returns a separate directory for a library, because pip refuses to add to a directory that it has filled.
pub(super) fn apart_dir(component: Component, cuda_major: u32) -> Option<PathBuf> {
    let name = match component {
        Component::Cublas => "cublas",
        Component::Nvrtc => "nvrtc",
        _ => "cudnn",
    };
    named_data_dir(&format!("{name}-cuda-{cuda_major}"))
}

pub(in crate::check) fn use_other(dir: &Path) -> Remedy {
    let text = format!("have programs use the cuDNN in {}:", dir.printable());
    Remedy::new(text).action(Variable::Use(dir.to_owned())).effect(Effect::OtherDir)
}
