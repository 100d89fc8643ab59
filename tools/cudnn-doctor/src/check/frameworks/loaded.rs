//! The cuDNN that a framework would load: is there one, is it of one release, does the framework accept it?

use cudnn_frameworks::{By, Distribution, Framework, Pin, Remedy, Survey, Unreadable};
use cudnn_probe::packages::Command;

use super::help::{install, is_beside, keep_apart, make_last, or_by_program, reach, requirement};
use super::text::{drop_in_note, found, source, title};
use super::used::UsedInstallation;
use super::{foreign, incomplete};
use crate::check::demand::is_of_conda;
use crate::check::finding::{
    FRAMEWORK_DAMAGED, FRAMEWORK_MIX, FRAMEWORK_NO_CUDNN, FRAMEWORK_OLD_CUDNN, FRAMEWORK_OPTIONAL_CUDNN, Finding,
    FindingKind, Help, Severity,
};
use crate::check::fix_commands::with_commands;
use crate::check::machine::Machine;
use crate::check::place::Place;
use crate::check::suitable::suitable;
use crate::dependency_report::OLDER_SHIM;
use crate::escape::Printable;

/// The cuDNN that it would load: is there one, is it of one release, does the framework accept it?
pub(super) fn cudnn(
    framework: &Framework,
    used: Option<&UsedInstallation>,
    survey: &Survey,
    machine: &Machine,
) -> Option<Finding> {
    let opens = &framework.opens;
    if opens.needs_none || opens.is_unexamined {
        return None;
    }
    if opens.users.is_empty() {
        return damaged(framework, survey);
    }
    let wanted = framework.built_for.cudnn.as_ref();
    let wants = wanted.map(|wanted| format!("built for cuDNN {} ({})", wanted.value, source(&wanted.source)));
    let Some(first) = opens.cudnn.first() else {
        if !opens.half_searched.is_empty() {
            return None;
        }
        let name = opens.name.as_deref().unwrap_or("cuDNN");
        let user = opens.users.first().map(|user| format!("needed by {}", user.printable()));
        let kind = if opens.is_optional { FRAMEWORK_OPTIONAL_CUDNN } else { FRAMEWORK_NO_CUDNN };
        let message = format!("{} would not find {}", title(framework), name.printable());
        let finding = Finding::new(kind, message).notes(user).notes(incomplete::damaged(opens)).notes(wants);
        return Some(or_by_program(finding.help(reach(framework, survey, machine)), framework, survey));
    };
    if let Some(finding) = foreign::finding(framework, used) {
        return Some(finding.notes(wants));
    }
    let (wanted, version) = (wanted?, opens.version()?);
    if framework.kind.comparison.accepts(wanted.value, version) {
        return None;
    }
    let message = format!("{} would load cuDNN {version}, but accepts {} or newer", title(framework), wanted.value);
    let of_drop_in = opens.cudnn.iter().find(|opened| opened.by == By::DropIn);
    let finding = Finding::new(FRAMEWORK_OLD_CUDNN, message).note(found(first)).notes(of_drop_in.map(found));
    let finding = finding.notes(wants);
    let first = of_drop_in.unwrap_or(first);
    Some(if is_beside(first, framework, survey) {
        let warnings = suitable(&survey.frameworks, machine).map_or(Vec::new(), |suitable| suitable.warnings);
        finding.notes(warnings).notes(drop_in_note(framework)).help(install(framework, survey, machine))
    } else {
        finding.help(make_last(first))
    })
}

/// A shim that gets the libraries of a newer release, which works.
pub(super) fn older_shim(framework: &Framework) -> Option<Finding> {
    let (shim, libraries) = framework.opens.cudnn.split_first()?;
    let other = libraries.iter().find(|other| other.version > shim.version)?;
    // A copy in the framework's package gets the libraries of any release.
    if shim.name.starts_with("libcudnn-") || framework.dir.as_deref() == shim.path.parent() {
        return None;
    }
    let (version, newer) = (shim.version?, other.version?);
    let name = other.name.printable();
    let message = format!("{} would load cuDNN {newer} ({name}) by the shim of {version}", title(framework));
    let kind = FindingKind { severity: Severity::Note, ..FRAMEWORK_MIX };
    let finding = Finding::new(kind, message).note(found(shim)).note(found(other)).note(OLDER_SHIM);
    Some(finding.help(keep_apart(shim, other)))
}

/// None of its own libraries can be loaded, so nothing is known of what they need.
fn damaged(framework: &Framework, survey: &Survey) -> Option<Finding> {
    let dir = framework.dir.as_deref()?;
    // C080 names what this user may not read.
    let is_closed = |one: &Unreadable| one.remedy == Some(Remedy::Allow) && one.path.starts_with(dir);
    if survey.unreadable.iter().any(is_closed) {
        return None;
    }
    let message = format!("{}: no usable library of it is in {}", title(framework), dir.printable());
    let finding = Finding::new(FRAMEWORK_DAMAGED, message);
    Some(finding.help(install_again(framework, survey)))
}

/// Installs its package again.
pub(super) fn install_again(framework: &Framework, survey: &Survey) -> Help {
    let Distribution { name, version, .. } = &framework.distribution;
    let is_of_conda = is_of_conda(framework);
    let command = again_with_parts(framework, survey).filter(|_| !is_of_conda);
    if command.is_none() && !is_of_conda && version.contains('+') {
        return Help::new(format!(
            "install {name}=={version} again from the package index that it came from, by pip with `--index-url`, \
             `--force-reinstall` and `--no-deps`: the Python package index has no version with a `+`"
        ));
    }
    match command {
        Some(command) => with_commands("install it again:", &[command]),
        None => Help::new("install it again, by the installer of this environment"),
    }
}

/// Installs its package again, and those of the same release that contain a part of it: `jax-cuda12-pjrt` has the library
/// of `jax-cuda12-plugin`.
fn again_with_parts(framework: &Framework, survey: &Survey) -> Option<Command> {
    let Distribution { name, version, .. } = &framework.distribution;
    let place = Place::of(framework, survey);
    // None for a package that only a private index has.
    let own = place.reinstall_package(name, version)?;
    let family = name.rsplit_once('-').map_or(name.as_str(), |(family, _)| family);
    let is_part = |pin: &&Pin| {
        let rest = pin.package.strip_prefix(family).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some() && pin.package != *name && pin.extra.is_none() && pin.requirement.contains("==")
    };
    let parts: Vec<String> = framework.pins.iter().filter(is_part).map(requirement).collect();
    if parts.is_empty() {
        return Some(own);
    }
    place.reinstall([format!("{name}=={version}")].into_iter().chain(parts).collect())
}
