//! The packages that a framework requires, and those that are installed.

use cudnn_frameworks::{Framework, Pin, PinState, Survey};
use cudnn_probe::Host;
use cudnn_probe::packages::Command;

use super::help::{command, is_of_conda, remove_other_cuda, requirement};
use super::text::title;
use crate::check::finding::{FRAMEWORK_PIN, Finding};
use crate::check::fix_commands::with_commands;
use crate::check::limits::Limits;
use crate::check::machine::Machine;

/// Packages that are not those that it requires.
pub(super) fn unmet(framework: &Framework, survey: &Survey, machine: &Machine) -> Option<Finding> {
    let is_unmet_state = |state: &PinState| matches!(state, PinState::OtherVersion(_) | PinState::Missing);
    let is_unmet = |pin: &&Pin| pin.extra.is_none() && is_unmet_state(&pin.state);
    let unmet: Vec<&Pin> = framework.pins.iter().filter(is_unmet).collect();
    let first = unmet.first()?;
    let message = match (&first.state, unmet.len()) {
        (PinState::OtherVersion(found), 1) => {
            format!("{} requires {}, but {found} is installed", title(framework), requirement(first))
        }
        (_, 1) => format!("{} requires {}, which is not installed", title(framework), requirement(first)),
        (_, count) => format!("{count} packages are not those that {} requires", title(framework)),
    };
    let notes = unmet.iter().map(|pin| match &pin.state {
        PinState::OtherVersion(found) => format!("requires {}; installed: {found}", pin.requirement),
        _ => format!("requires {}; not installed", pin.requirement),
    });
    let finding = Finding::new(FRAMEWORK_PIN, message).notes(notes);
    let cuda_major = unmet.iter().find_map(|pin| pin.package.strip_prefix("nvidia-cudnn-cu")?.parse().ok());
    let limits = Limits::new(Some(&survey.environment.root), &machine.gpus, &Host::current());
    // Nothing that it requires would work here: C040 would have it replaced.
    if let Some(Err(reason)) = cuda_major.filter(|_| !machine.gpus.is_empty()).map(|cuda| limits.choose(None, cuda)) {
        return Some(finding.help(reason));
    }
    let removal = match cuda_major.map_or(Ok(None), |_| remove_other_cuda(framework, survey)) {
        Ok(removal) => removal,
        Err(reason) => return Some(finding.help(reason)),
    };
    let requirements = unmet.iter().map(|pin| requirement(pin));
    Some(match command(framework, survey, requirements).filter(|_| !is_of_conda(framework)) {
        Some(command) => {
            let text = match removal {
                Some(_) => {
                    "remove the cuDNN for another CUDA, which owns the same files, and install what it requires:"
                }
                None => "install what it requires:",
            };
            let commands: Vec<Command> = removal.into_iter().chain([command]).collect();
            finding.help(with_commands(text, &commands))
        }
        None => finding.help("install the versions that it requires, by the installer of this environment"),
    })
}

/// The other frameworks that require one release of cuDNN, which the help would replace.
pub(super) fn also_pinned<'a>(framework: &'a Framework, survey: &'a Survey) -> impl Iterator<Item = String> + 'a {
    let others = survey.frameworks.iter().filter(move |other| !std::ptr::eq(other.kind, framework.kind));
    let pins = others.flat_map(|other| other.pins.iter().map(move |pin| (other, pin)));
    let is_exact = |pin: &Pin| pin.package.starts_with("nvidia-cudnn-cu") && pin.requirement.contains("==");
    pins.filter(move |(_, pin)| is_exact(pin) && pin.extra.is_none()).map(|(other, pin)| {
        format!(
            "{} requires {}: it accepts newer minor releases, too, and pip only warns",
            title(other),
            requirement(pin)
        )
    })
}
