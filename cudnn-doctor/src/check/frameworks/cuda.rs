//! The libraries of CUDA that a framework needs and would not find.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cudnn_frameworks::{Framework, Pin, PinState, Survey};
use cudnn_probe::packages::{self, Command, Component, Installer, Package};

use super::help::{is_of_conda, with_search};
use super::incomplete::is_cudnn;
use super::text::{release, source, title};
use crate::check::finding::{FRAMEWORK_NO_CUDA, Finding, Help};
use crate::check::fix_commands::with_commands;
use crate::escape::Printable;
use crate::shell::prepend_library_path;

/// Libraries of CUDA that it needs and would not find.
pub(super) fn missing(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let missing: Vec<&String> = framework.opens.missing.iter().filter(|name| !is_cudnn(name)).collect();
    let first = missing.first()?;
    let message = format!("{} would not find {}", title(framework), first.printable());
    let others = missing.iter().skip(1).map(|name| format!("nor {name}"));
    let built = framework.built_for.cuda.as_ref().map(|cuda| {
        let (major, minor) = cuda.value;
        format!("built for CUDA {} ({})", release(major, minor), source(&cuda.source))
    });
    let finding = Finding::new(FRAMEWORK_NO_CUDA, message).notes(others).notes(built);
    let wheels = wheels(&missing).filter(|_| !is_of_conda(framework));
    // What it requires comes first.
    let is_unmet = |pin: &&Pin| pin.extra.is_none() && !matches!(pin.state, PinState::Met(_));
    let is_among = |pin: &Pin| {
        let is_it = |(component, cuda): &(Component, u32)| component.wheel(*cuda) == pin.package;
        wheels.as_ref().is_none_or(|wheels| wheels.iter().any(is_it))
    };
    if framework.pins.iter().filter(is_unmet).any(is_among) {
        return Some(finding.help("install what it requires: see the finding about that"));
    }
    if let Some(help) = reach_cuda(&missing, survey) {
        return Some(finding.help(help));
    }
    let wheels = wheels.unwrap_or_default();
    let owner = Package::new(Installer::Pip, &framework.distribution.name, None, &survey.environment.root);
    let commands: Vec<Command> = wheels
        .iter()
        .filter_map(|(component, cuda)| packages::install_beside(&owner, *component, *cuda, None))
        .collect();
    Some(if commands.is_empty() {
        finding.help("install the CUDA libraries of this major in its environment")
    } else {
        let dirs: Vec<PathBuf> = wheels.iter().map(|(component, cuda)| component.wheel_dir(*cuda)).collect();
        let help = with_commands("install the wheels that contain them:", &commands);
        finding.help(with_search(help, framework, &dirs))
    })
}

/// The wheels that contain all these libraries, with the CUDA major of each.
fn wheels(names: &[&String]) -> Option<BTreeSet<(Component, u32)>> {
    let wheel = |name: &&String| Component::from_soname(name).and_then(|(component, cuda)| Some((component, cuda?)));
    names.iter().map(wheel).collect()
}

/// The directories of wheels that contain all that is missing, for ld.so.
fn reach_cuda(missing: &[&String], survey: &Survey) -> Option<Help> {
    const MAX_DIRS: usize = 256;
    let import_dirs = survey.environment.import_dirs.iter();
    let wheels = import_dirs.filter_map(|dir| std::fs::read_dir(dir.join("nvidia")).ok()).flatten().take(MAX_DIRS);
    let libs: Vec<PathBuf> = wheels.flatten().map(|wheel| wheel.path().join("lib")).collect();
    let mut dirs: Vec<&PathBuf> = Vec::new();
    for name in missing {
        let dir = libs.iter().find(|dir| dir.join(name).is_file())?;
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let lines: Option<Vec<String>> = dirs.into_iter().map(|dir| prepend_library_path(dir)).collect();
    let help = Help::new("they are in wheels of this environment: have ld.so search their directories:");
    Some(lines?.into_iter().fold(help, Help::command))
}
