//! The libraries of CUDA that cuDNN opens by name: where they are, or how to install them.

use std::path::{Component as PathPart, Path, PathBuf};

use cudnn_probe::packages::{self, Component, Installer};
use cudnn_probe::{InstallationReport, LibraryReport, Origin};

use super::package_help::with_commands;
use super::places::{apart_dir, no_place, site_packages};
use crate::check::finding::Help;
use crate::check::nvrtc_builtins::has_builtins;
use crate::context::Context;
use crate::escape::Printable;
use crate::shell::{SEARCH_PATH, prepend_library_path};
use crate::system::LOADER;

/// The directory that CUDA toolkits are installed in.
const CUDA_PREFIX: &str = "/usr/local";

/// A library of CUDA that cuDNN opens by name and ld.so does not find, or finds without what it needs.
pub(in crate::check) struct Companion<'a> {
    /// `libnvrtc.so.12`.
    pub(in crate::check) name: &'a str,
    pub(in crate::check) cuda_major: u32,
    /// cuDNN's library that opens it.
    pub(in crate::check) opener: &'a LibraryReport,
    /// The file that ld.so finds now, which lacks something.
    pub(in crate::check) incomplete: Option<&'a Path>,
}

impl Companion<'_> {
    /// Does this directory contain it, with all that it needs?
    fn is_in(&self, dir: &Path, context: &Context) -> bool {
        let file = dir.join(self.name);
        let is_incomplete = self.incomplete.and_then(Path::parent) == Some(dir)
            || self.incomplete.is_some() && self.name.starts_with("libnvrtc") && !has_builtins(&file, self.cuda_major);
        !is_incomplete && file.is_file() && context.simulation(&file).is_ok()
    }

    /// Puts it where this cuDNN finds it.
    pub(in crate::check) fn help(&self, report: &InstallationReport, context: &Context) -> Help {
        let (name, cuda_major) = (self.name, self.cuda_major);
        let Some((component, _)) = Component::from_soname(name) else { return Help::new(format!("install {name}")) };
        let apart = apart_dir(component, cuda_major);
        let found = self.places(report, component, apart.as_deref(), context);
        if let Some(dir) = found.into_iter().find(|dir| self.is_in(dir, context))
            && let Some(line) = prepend_library_path(&dir)
        {
            return Help::new(format!("it is in {}: have {LOADER} search that directory:", dir.printable()))
                .command(line);
        }
        // A wheel of cuDNN finds the wheels beside it by its run path; a system package finds the system's libraries.
        let beside = report.package.as_ref().and_then(|package| {
            Some((package, packages::install_beside(package, component, cuda_major, report.cuda_minor)?))
        });
        if let Some((package, command)) = beside {
            let help = format!("install {component} for CUDA {cuda_major} beside this cuDNN:");
            let help = with_commands(help, &[command]);
            let dir = match package.installer {
                Installer::Pip => site_packages(report).map(|site| site.join(component.wheel_dir(cuda_major))),
                _ => None,
            };
            // Without a command, nothing is installed there.
            let has_command = !help.commands.is_empty();
            let dir = dir.filter(|dir| has_command && (self.incomplete.is_some() || !self.searches(dir)));
            return match dir.as_deref().and_then(prepend_library_path) {
                Some(line) => help.command(line),
                None => help,
            };
        }
        let Some(apart) = apart else { return no_place() };
        let Some((command, dir)) = packages::install_apart(component, cuda_major, &apart) else {
            return Help::new(format!(
                "install {component} for CUDA {cuda_major}, and have {LOADER} search its directory"
            ));
        };
        let text = format!("install {component} for CUDA {cuda_major}, and have {LOADER} search its directory:");
        let help = with_commands(text, &[command]);
        match prepend_library_path(&dir) {
            Some(line) => help.command(line),
            None => Help::new(format!(
                "install the CUDA {cuda_major} toolkit, and put the directory that contains {name} on {SEARCH_PATH}"
            )),
        }
    }

    /// The directories in which it may be, although ld.so does not find it.
    fn places(
        &self,
        report: &InstallationReport,
        component: Component,
        apart: Option<&Path>,
        context: &Context,
    ) -> Vec<PathBuf> {
        let wheel_dir = component.wheel_dir(self.cuda_major);
        let mut dirs: Vec<PathBuf> = site_packages(report).into_iter().map(|site| site.join(&wheel_dir)).collect();
        dirs.extend(toolkits(self.cuda_major));
        let environments = context.search.environments();
        for root in environments.iter().filter_map(Origin::root) {
            dirs.extend(packages::site_packages(root).map(|site| site.join(&wheel_dir)));
            dirs.push(root.join("lib"));
        }
        dirs.extend(apart.map(|apart| apart.join(wheel_dir)));
        dirs
    }

    /// Does the run path of the library that opens it lead to this directory?
    fn searches(&self, dir: &Path) -> bool {
        let origin = self.opener.path.parent().unwrap_or(Path::new("/"));
        let run_path = self.opener.identity.as_ref().ok().and_then(|identity| identity.run_path.clone());
        let expand = |part: &str| {
            let part = part.replace("${ORIGIN}", "$ORIGIN");
            match part.strip_prefix("$ORIGIN") {
                Some(below) => normalized(&origin.join(below.trim_start_matches('/'))),
                None => normalized(Path::new(&part)),
            }
        };
        run_path.is_some_and(|run_path| run_path.split(':').any(|part| expand(part) == dir))
    }
}

/// The path without `..`, by its text alone: the directory need not exist yet.
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

/// The library directories of the installed toolkits for this CUDA major.
fn toolkits(cuda_major: u32) -> Vec<PathBuf> {
    let is_toolkit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name == "cuda" || name.starts_with(&format!("cuda-{cuda_major}"))
    };
    let entries = std::fs::read_dir(Path::new(CUDA_PREFIX)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut dirs: Vec<PathBuf> = entries.filter(is_toolkit).map(|root| root.join("lib64")).collect();
    dirs.sort();
    dirs
}
