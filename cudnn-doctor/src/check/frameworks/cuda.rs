//! The libraries of CUDA that a framework needs and would not find.

use std::path::PathBuf;

use cudnn_frameworks::{Framework, PinState, Survey};
use cudnn_probe::packages;

use super::help::{command, is_of_conda};
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
    // What it requires comes first; pip knows no other names of these wheels.
    let unmet = framework.pins.iter().any(|pin| pin.extra.is_none() && !matches!(pin.state, PinState::Met(_)));
    if unmet {
        return Some(finding.help("install what it requires: see the finding about that"));
    }
    if let Some(help) = reach_cuda(&missing, survey) {
        return Some(finding.help(help));
    }
    let mut wheels: Vec<String> = missing.iter().filter_map(|name| packages::wheel_for(name.as_str())).collect();
    let is_pip = !is_of_conda(framework) && wheels.len() == missing.len();
    wheels.sort();
    wheels.dedup();
    Some(match command(framework, survey, wheels).filter(|_| is_pip) {
        Some(command) => finding.help(with_commands("install the wheels that contain them:", &[command])),
        None => finding.help("install the CUDA libraries of this major in its environment"),
    })
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
