//! Finds or installs the CUDA libraries that cuDNN opens by name.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::path::{Path, PathBuf};

use cudnn_frameworks::installation::{self, InstallationReport, LibraryReport};
use cudnn_frameworks::real_path;
use cudnn_probe::{Component, Library, Origin, Os, ld_so};

use super::common::{apart_dir, by_change, no_place, real_place, site_packages};
use crate::check::finding::{FindingKind, NO_CUBLAS, NO_NVRTC};
use crate::check::nvrtc::has_builtins;
use crate::context::Context;
use crate::packages::{self, PackageNames};
use crate::remedy::{Effect, Remedy};
use crate::system::{self, LOADER};

const CUDA_PREFIX: &str = "/usr/local";

/// A CUDA library that cuDNN opens by name when needed.
pub(in crate::check) struct Companion<'a> {
    /// For example `libnvrtc.so.12`.
    pub(in crate::check) name: String,
    pub(in crate::check) component: Component,
    pub(in crate::check) cuda_major: u32,
    pub(in crate::check) opener: &'a LibraryReport,
    /// The kind of finding if it is missing or unusable.
    pub(in crate::check) kind: FindingKind,
}

impl Companion<'_> {
    pub(in crate::check) fn of(report: &InstallationReport) -> impl Iterator<Item = Companion<'_>> {
        let nvrtc = if Os::HOST == Os::Windows { Library::EnginesPrecompiled } else { Library::EnginesRuntimeCompiled };
        let all = [(Component::Cublas, Library::EnginesPrecompiled, NO_CUBLAS), (Component::Nvrtc, nvrtc, NO_NVRTC)];
        all.into_iter().filter_map(|(component, opener, kind)| {
            let (opener, cuda_major) = (report.library(opener)?, report.cuda_major?);
            Some(Companion { name: name(component, cuda_major), component, cuda_major, opener, kind })
        })
    }

    pub(in crate::check) fn name_for(&self, cuda_major: u32) -> String {
        name(self.component, cuda_major)
    }

    /// Returns whether this directory contains the library and the dependencies. `incomplete` is the file that the
    /// system finds now.
    fn is_in(&self, dir: &Path, incomplete: Option<&Path>, context: &Context) -> bool {
        let file = dir.join(&self.name);
        let is_incomplete = incomplete.and_then(Path::parent).is_some_and(|parent| real_path(parent) == real_path(dir))
            || incomplete.is_some() && self.component == Component::Nvrtc && !has_builtins(&file, self.cuda_major);
        let is_usable = || Os::HOST == Os::Windows || context.simulation(&file).is_ok();
        !is_incomplete && file.leads_to_file() && is_usable()
    }

    /// Makes the library available, in place of the incomplete or damaged file that the system finds now.
    pub(in crate::check) fn help(
        &self,
        incomplete: Option<&Path>,
        report: &InstallationReport,
        context: &Context,
    ) -> Remedy {
        let Companion { component, cuda_major, .. } = *self;
        let (wheel_dir, apart) = (component.wheel_dir(cuda_major), apart_dir(component, cuda_major));
        // The directories that may contain the library although ld.so does not find it.
        let mut dirs: Vec<PathBuf> = site_packages(report).into_iter().map(|site| site.join(&wheel_dir)).collect();
        dirs.extend(toolkits(cuda_major));
        for root in context.search.environments().iter().filter_map(Origin::root) {
            dirs.extend(installation::site_packages(root).map(|site| site.join(&wheel_dir)));
            dirs.push(root.join(system::choose("lib", "Library/bin")));
        }
        dirs.extend(apart.iter().map(|apart| apart.join(&wheel_dir)));
        // When a library opens another by name, Windows ignores the library's directory.
        dirs.extend((Os::HOST == Os::Windows).then(|| report.dir.clone()));
        if let Some(dir) = dirs.into_iter().find(|dir| self.is_in(dir, incomplete, context)) {
            let text = format!("it is in {}: have {LOADER} search that directory:", dir.printable());
            return Remedy::new(text).search(&dir);
        }
        // The run path of a cuDNN wheel leads to neighboring wheels, and system packages find the system's libraries.
        let text = format!("install {component} for CUDA {cuda_major}");
        let beside = |package| packages::install_beside(package, component, cuda_major, report.cuda_minor);
        if let Some(change) = report.package.as_ref().and_then(beside) {
            let site = change.site.user_packages().or_else(|| site_packages(report));
            let dir = site.map(|site| site.join(wheel_dir));
            let is_searched = |dir: &Path| ld_so::run_path_contains(&self.opener.path, &real_place(dir), &context.host);
            let dir = dir.filter(|dir| incomplete.is_some() || !is_searched(dir));
            let remedy = by_change(format!("{text} next to this cuDNN:"), change).effect(Effect::Other);
            return dir.iter().fold(remedy, |remedy, dir| remedy.search(dir));
        }
        let Some(apart) = apart else { return no_place() };
        let text = format!("{text}, and have {LOADER} search its directory");
        match packages::install_apart(component, cuda_major, &apart) {
            Some((change, dir)) => by_change(format!("{text}:"), change).effect(Effect::Other).search(&dir),
            None => Remedy::new(text),
        }
    }
}

fn name(component: Component, cuda_major: u32) -> String {
    match (component, Os::HOST) {
        // The name for CUDA 11 contains the minor version that introduced the stable interface.
        (Component::Nvrtc, Os::Windows) if cuda_major == 11 => "nvrtc64_112_0.dll".to_owned(),
        (Component::Nvrtc, Os::Windows) => format!("nvrtc64_{cuda_major}0_0.dll"),
        (Component::Nvrtc, _) => format!("libnvrtc.so.{cuda_major}"),
        (_, Os::Windows) => format!("cublasLt64_{cuda_major}.dll"),
        _ => format!("libcublasLt.so.{cuda_major}"),
    }
}

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
