//! The libraries of CUDA that a framework needs and would not find.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cudnn_frameworks::{Damaged, Framework, Pin, PinState, Survey};
use cudnn_probe::Os;
use cudnn_probe::ld_so::Rule;
use cudnn_probe::packages::{self, CudaWheel};

use super::broken;
use super::help::{or_by_program, with_search};
use super::incomplete::is_cudnn;
use super::text::{release, source, title};
use crate::check::culprit;
use crate::check::demand::is_of_conda;
use crate::check::finding::{FRAMEWORK_NO_CUDA, Finding, Help};
use crate::check::fix_commands::with_commands;
use crate::check::place::Place;
use crate::escape::Printable;
use crate::shell::prepend_library_path;
use crate::system::LOADER;

/// Libraries of CUDA that it needs and would not find.
pub(super) fn missing(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let is_foreign = |name: &&String| damaged_for(name, framework).is_some_and(is_foreign);
    let missing = framework.opens.missing.iter().filter(|name| !is_cudnn(name) && !is_foreign(name));
    let missing: Vec<&String> = missing.collect();
    let first = missing.first()?;
    let message = format!("{} would not find {}", title(framework), first.printable());
    let others = missing.iter().skip(1).map(|name| format!("nor {name}"));
    let damaged = missing.iter().filter_map(|name| damaged_for(name, framework)).map(text);
    let built = framework.built_for.cuda.as_ref().map(|cuda| {
        let (major, minor) = cuda.value;
        format!("built for CUDA {} ({})", release(major, minor), source(&cuda.source))
    });
    let finding = Finding::new(FRAMEWORK_NO_CUDA, message).notes(others).notes(damaged).notes(built);
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
    if let Some(help) = reach_cuda(&missing, framework, survey) {
        return Some(or_by_program(finding.help(help), framework, survey));
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
        or_by_program(finding.help(with_search(help, framework, &dirs)), framework, survey)
    })
}

/// Libraries that are damaged and come from outside: ld.so takes those on LD_LIBRARY_PATH before the right ones.
pub(super) fn damaged(framework: &Framework) -> Option<Finding> {
    let others = &framework.opens.damaged_others;
    let is_missing = |damaged: &&Damaged| {
        !is_foreign(damaged) && framework.opens.missing.iter().any(|name| damaged.path.ends_with(name))
    };
    // C086 is about its own.
    let mut others = others.iter().filter(|damaged| !is_missing(damaged) && !broken::is_own(damaged, framework));
    let first = others.next()?;
    let rule = first.rule.as_ref()?;
    let message = format!("{} would load a damaged library: {}", title(framework), text(first));
    let finding = Finding::new(FRAMEWORK_NO_CUDA, message).note(format!("found by: {rule}")).notes(others.map(text));
    Some(finding.help(culprit::replace(&first.path, rule)))
}

/// The damaged file that ld.so finds for this name.
fn damaged_for<'a>(name: &str, framework: &'a Framework) -> Option<&'a Damaged> {
    framework.opens.damaged_others.iter().find(|damaged| damaged.path.ends_with(name))
}

/// Whether a search path leads to it, rather than the framework's own run path or Python code.
fn is_foreign(damaged: &Damaged) -> bool {
    matches!(damaged.rule, Some(Rule::LibraryPath | Rule::Preload))
}

fn text(damaged: &Damaged) -> String {
    format!("{} {}", damaged.path.printable(), damaged.reason)
}

/// Whether this file is there, and is none of those that ld.so cannot load.
fn is_usable(file: &Path, framework: &Framework) -> bool {
    let real = |path: &Path| cudnn_probe::canonicalize(path).ok();
    file.is_file() && !framework.opens.damaged_others.iter().any(|damaged| real(&damaged.path) == real(file))
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
    let (place, site) = (Place::of(framework, survey), &framework.distribution.import_dir);
    let is_there = |wheel: &CudaWheel, names: &[&String]| {
        names.iter().all(|name| is_usable(&site.join(&wheel.dir).join(name), framework))
    };
    let (mut new, mut again) = (Vec::new(), Vec::new());
    for (wheel, _) in wheels.iter().filter(|(wheel, names)| !is_there(wheel, names)) {
        let selected =
            wheel.requirement.strip_prefix(&format!("{}==", wheel.name)).map(|version| version.trim_end_matches('*'));
        let is_selected = |version: &String| selected.is_none_or(|selected| version.starts_with(selected));
        match place.recorded_version(&wheel.name).filter(is_selected) {
            Some(version) => again.push(format!("{}=={version}", wheel.name)),
            None => new.push(wheel.requirement.clone()),
        }
    }
    let again = (!again.is_empty()).then(|| place.reinstall(again)).flatten();
    let new = (!new.is_empty()).then(|| place.install(new)).flatten();
    again.into_iter().chain(new).collect()
}

/// A path below a directory, of parts that are written with `/`.
fn below(dir: &Path, parts: &str) -> PathBuf {
    parts.split('/').fold(dir.to_owned(), |dir, part| dir.join(part))
}

/// The directories of wheels that contain all that is missing, for ld.so.
fn reach_cuda(missing: &[&String], framework: &Framework, survey: &Survey) -> Option<Help> {
    const MAX_DIRS: usize = 256;
    let import_dirs = survey.environment.import_dirs.iter();
    let wheels = import_dirs.filter_map(|dir| std::fs::read_dir(dir.join("nvidia")).ok()).flatten().take(MAX_DIRS);
    let dirs: &[&str] = if survey.environment.os == Os::Windows { &["bin", "bin/x86_64"] } else { &["lib"] };
    let wheels = wheels.flatten();
    let libs: Vec<PathBuf> = wheels.flat_map(|wheel| dirs.iter().map(move |dir| below(&wheel.path(), dir))).collect();
    let mut dirs: Vec<&PathBuf> = Vec::new();
    for name in missing {
        let dir = libs.iter().find(|dir| is_usable(&dir.join(name), framework))?;
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let lines: Option<Vec<String>> = dirs.into_iter().map(|dir| prepend_library_path(dir)).collect();
    let help = Help::new(format!("they are in wheels of this environment: have {LOADER} search their directories:"));
    Some(lines?.into_iter().fold(help, Help::command))
}
