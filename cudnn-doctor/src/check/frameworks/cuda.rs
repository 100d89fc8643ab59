//! The libraries of CUDA that a framework needs and would not find.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cudnn_frameworks::{Framework, Pin, PinState, Survey};
use cudnn_probe::packages::{self, CudaWheel};

use super::help::with_search;
use super::incomplete::is_cudnn;
use super::text::{release, source, title};
use crate::check::demand::{is_of_conda, root_of};
use crate::check::finding::{FRAMEWORK_NO_CUDA, Finding, Help};
use crate::check::fix_commands::with_commands;
use crate::escape::Printable;
use crate::shell::prepend_library_path;
use crate::system::LOADER;

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
    let is_of_conda = is_of_conda(framework);
    let wheels = if is_of_conda { None } else { wheels(&missing, framework) };
    // What it requires comes first.
    let is_unmet = |pin: &&Pin| pin.extra.is_none() && !matches!(pin.state, PinState::Met(_));
    let is_among = |pin: &Pin| match &wheels {
        Some(wheels) => wheels.keys().any(|wheel| wheel.name == pin.package),
        None => is_of_conda || pin.package.starts_with("nvidia-"),
    };
    if framework.pins.iter().filter(is_unmet).any(is_among) {
        return Some(finding.help("install what it requires: see the finding about that"));
    }
    if let Some(help) = reach_cuda(&missing, survey) {
        return Some(finding.help(help));
    }
    let wheels = wheels.unwrap_or_default();
    let commands = install(&wheels, framework, survey);
    Some(if commands.is_empty() {
        finding.help("install the CUDA libraries of this major in its environment")
    } else {
        let mut dirs: Vec<PathBuf> = wheels.keys().map(|wheel| wheel.dir.clone()).collect();
        dirs.sort();
        dirs.dedup();
        let help = with_commands("install the wheels that contain them:", &commands);
        finding.help(with_search(help, framework, &dirs))
    })
}

/// The wheels that contain all these libraries, with the libraries of each.
fn wheels<'a>(names: &[&'a String], framework: &Framework) -> Option<BTreeMap<CudaWheel, Vec<&'a String>>> {
    let cuda = framework.built_for.cuda.as_ref().map(|cuda| cuda.value.0);
    let mut wheels: BTreeMap<CudaWheel, Vec<&String>> = BTreeMap::new();
    for name in names {
        wheels.entry(packages::cuda_wheel(name, cuda)?).or_default().push(name);
    }
    Some(wheels)
}

/// The commands that install wheels whose libraries are not in the environment: again, where pip has a record of the
/// wheel.
fn install(
    wheels: &BTreeMap<CudaWheel, Vec<&String>>,
    framework: &Framework,
    survey: &Survey,
) -> Vec<packages::Command> {
    let (root, site) = (&root_of(framework, survey), &framework.distribution.import_dir);
    let is_there =
        |wheel: &CudaWheel, names: &[&String]| names.iter().all(|name| site.join(&wheel.dir).join(name).is_file());
    let (mut new, mut again) = (Vec::new(), Vec::new());
    for (wheel, _) in wheels.iter().filter(|(wheel, names)| !is_there(wheel, names)) {
        let selected =
            wheel.requirement.strip_prefix(&format!("{}==", wheel.name)).map(|version| version.trim_end_matches('*'));
        let is_selected = |version: &String| selected.is_none_or(|selected| version.starts_with(selected));
        match packages::recorded_version(root, &wheel.name).filter(is_selected) {
            Some(version) => again.push(format!("{}=={version}", wheel.name)),
            None => new.push(wheel.requirement.clone()),
        }
    }
    let again = (!again.is_empty()).then(|| packages::reinstall_requirements(root, again)).flatten();
    let new = (!new.is_empty()).then(|| packages::pip(Some(root), "install", new)).flatten();
    again.into_iter().chain(new).collect()
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
    let help = Help::new(format!("they are in wheels of this environment: have {LOADER} search their directories:"));
    Some(lines?.into_iter().fold(help, Help::command))
}
