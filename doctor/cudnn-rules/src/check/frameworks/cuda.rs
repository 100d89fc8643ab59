//! Checks the CUDA libraries that a framework needs: C074.

use cudnn_cli::escape::Printable;
use cudnn_probe::facts::PathFacts;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cudnn_frameworks::{Damaged, Framework, Pin, PinState, is_cudnn, real_path};
use cudnn_probe::ld_so::Rule;

use super::context::FrameworkContext;
use super::pins::common_requirement;
use super::remedy::{or_by_program, with_search};
use super::text::{release, source};
use crate::check::finding::{FRAMEWORK_NO_CUDA, Finding};
use crate::check::foreign_library;
use crate::check::framework_requirement::is_of_conda;
use crate::check::remedies::by_change;
use crate::packages::{self, CudaWheel, PackageChange};
use crate::remedy::Remedy;
use crate::system::LOADER;

/// C074: missing CUDA libraries.
pub(super) fn missing(context: &FrameworkContext<'_>) -> Option<Finding> {
    let framework = context.framework;
    let is_foreign = |name: &str| damaged_for(name, framework).is_some_and(is_foreign);
    let missing = framework.opens.missing.iter().filter(|name| !is_cudnn(name) && !is_foreign(name));
    let missing: Vec<&String> = missing.collect();
    let first = missing.first()?;
    let built = framework.built_for.cuda.as_ref().map(|cuda| {
        let (major, minor) = cuda.value;
        format!("built for CUDA {} ({})", release(major, minor), source(&cuda.source))
    });
    let finding = Finding::new(FRAMEWORK_NO_CUDA, format!("{} would not find {}", context.title(), first.printable()))
        .notes(missing.iter().skip(1).map(|name| format!("nor {name}")))
        .notes(missing.iter().filter_map(|name| damaged_for(name, framework)).map(text))
        .notes(built);
    let is_of_conda = is_of_conda(framework);
    let wheel = |name: &&String| packages::cuda_wheel(name, context.cuda_major());
    let wheels: Option<Vec<CudaWheel>> = missing.iter().map(wheel).collect();
    // Unmet requirements of the metadata are reported as C073.
    let is_among = |pin: &Pin| match &wheels {
        Some(wheels) if !is_of_conda => wheels.iter().any(|wheel| wheel.name == pin.package),
        _ => is_of_conda || pin.package.starts_with("nvidia-"),
    };
    let is_unmet = |pin: &Pin| pin.extra.is_none() && !matches!(pin.state, PinState::Met(_));
    if framework.pins.iter().any(|pin| is_unmet(pin) && is_among(pin)) {
        return Some(finding.remedy("install its requirements: see the separate finding"));
    }
    let remedy = wheels.and_then(|wheels| {
        let wheels: Vec<(&str, CudaWheel)> = missing.iter().map(|name| name.as_str()).zip(wheels).collect();
        reach(&wheels, context).or_else(|| install(&wheels, context).filter(|_| !is_of_conda))
    });
    Some(match remedy {
        Some(remedy) => or_by_program(finding.remedy(remedy), context),
        None => finding.remedy("install the CUDA libraries of this major in its environment"),
    })
}

/// C074: damaged libraries outside the environment, for example on LD_LIBRARY_PATH, which ld.so searches first.
pub(super) fn damaged(context: &FrameworkContext<'_>) -> Option<Finding> {
    let opens = &context.framework.opens;
    let is_missing =
        |damaged: &Damaged| !is_foreign(damaged) && opens.missing.iter().any(|name| damaged.path.ends_with(name));
    // C086 reports the framework's own libraries.
    let mut others = opens.damaged_others.iter().filter(|damaged| !is_missing(damaged) && !context.owns(damaged));
    let first = others.next()?;
    let rule = first.rule.as_ref()?;
    let message = format!("{} would load a damaged library: {}", context.title(), text(first));
    let finding = Finding::new(FRAMEWORK_NO_CUDA, message).note(format!("found by: {rule}")).notes(others.map(text));
    Some(finding.remedy(foreign_library::replace(&first.path, rule)))
}

fn damaged_for<'a>(name: &str, framework: &'a Framework) -> Option<&'a Damaged> {
    framework.opens.damaged_others.iter().find(|damaged| damaged.path.ends_with(name))
}

/// Returns whether ld.so finds the file by a variable, as opposed to a run path or Python code.
fn is_foreign(damaged: &Damaged) -> bool {
    matches!(damaged.rule, Some(Rule::LibraryPath | Rule::Preload))
}

fn text(damaged: &Damaged) -> String {
    format!("{} {}", damaged.path.printable(), damaged.reason)
}

fn is_usable(file: &Path, framework: &Framework) -> bool {
    file.leads_to_file()
        && !framework.opens.damaged_others.iter().any(|damaged| real_path(&damaged.path) == real_path(file))
}

/// Makes ld.so search the installed wheels that contain all of these libraries.
fn reach(wheels: &[(&str, CudaWheel)], context: &FrameworkContext<'_>) -> Option<Remedy> {
    let import_dirs = &context.survey.environment.import_dirs;
    let mut dirs: Vec<PathBuf> = Vec::new();
    for (name, wheel) in wheels {
        let mut places = import_dirs.iter().map(|dir| dir.join(&wheel.dir));
        let dir = places.find(|dir| is_usable(&dir.join(name), context.framework))?;
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let text = format!("they are in wheels of this environment: have {LOADER} search their directories:");
    Some(dirs.iter().fold(Remedy::new(text), |remedy, dir| remedy.search(dir)))
}

/// Installs the wheels in versions that suit all frameworks. Wheels with a record of pip are reinstalled.
fn install(wheels: &[(&str, CudaWheel)], context: &FrameworkContext<'_>) -> Option<Remedy> {
    let (site, import_dir) = (context.site(), &context.framework.distribution.import_dir);
    let is_there =
        |name: &str, wheel: &CudaWheel| is_usable(&import_dir.join(&wheel.dir).join(name), context.framework);
    let missing_files = wheels.iter().filter(|(name, wheel)| !is_there(name, wheel)).map(|(_, wheel)| wheel);
    let (mut new, mut again) = (Vec::new(), Vec::new());
    for CudaWheel { name, requirement, .. } in missing_files.collect::<BTreeSet<_>>() {
        let selected = requirement.strip_prefix(name).and_then(|rest| rest.strip_prefix("=="));
        let selected = selected.unwrap_or_default().trim_end_matches('*');
        match site.recorded_version(name).filter(|version| version.starts_with(selected)) {
            Some(version) => again.push(format!("{name}=={version}")),
            None => match common_requirement(name, requirement.clone(), context) {
                Ok(requirement) => new.push(requirement),
                Err(reason) => return Some(Remedy::new(reason)),
            },
        }
    }
    let change = PackageChange::of(site).reinstall(again).install(new).possible()?;
    let dirs: BTreeSet<PathBuf> = wheels.iter().map(|(_, wheel)| wheel.dir.clone()).collect();
    let dirs: Vec<PathBuf> = dirs.into_iter().collect();
    Some(with_search(by_change("install the wheels that contain them:", change), context, &dirs))
}
