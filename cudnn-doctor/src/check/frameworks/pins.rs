//! The packages that a framework requires, and those that are installed.

use cudnn_frameworks::{Framework, Pin, PinState, Survey};
use cudnn_probe::packages::Command;

use super::help::{remove_other_cuda, requirement};
use super::text::title;
use crate::check::demand::{WHEEL, is_of_conda};
use crate::check::finding::{FRAMEWORK_PIN, Finding};
use crate::check::fix_commands::with_commands;
use crate::check::machine::Machine;
use crate::check::place::Place;
use crate::check::suitable::suitable;

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
    if is_of_conda(framework) {
        return Some(finding.help("install the versions that it requires, by the installer of this environment"));
    }
    // The cuDNN that it requires must suit the other frameworks, too.
    let (cudnn, others): (Vec<&Pin>, Vec<&Pin>) = unmet.iter().partition(|pin| pin.package.starts_with(WHEEL));
    let place = Place::of(framework, survey);
    let install = |requirements: Vec<String>| place.install(requirements);
    let requirements: Vec<String> = others.iter().map(|pin| requirement(pin)).collect();
    let Some(pin) = cudnn.first() else {
        return Some(finding.help(with_commands("install what it requires:", install(requirements).as_slice())));
    };
    let suitable = match suitable(&survey.frameworks, machine) {
        Ok(suitable) => suitable,
        Err(reason) => return Some(finding.help(reason)),
    };
    let is_right = matches!(&pin.state, PinState::OtherVersion(found) if suitable.allows(found));
    if is_right && others.is_empty() {
        let finding = finding.notes(suitable.warnings);
        return Some(finding.help(
            "keep it: another framework here accepts no older one; or give one of them an environment of its own",
        ));
    }
    let removal = remove_other_cuda(framework, survey, &suitable);
    let text = match removal {
        Some(_) => "remove the cuDNN for another CUDA, which owns the same files, and install what it requires:",
        None => "install what it requires:",
    };
    let wanted = (!is_right).then(|| suitable.requirement.clone());
    let commands: Vec<Command> =
        removal.into_iter().chain(install(wanted.into_iter().chain(requirements).collect())).collect();
    Some(finding.notes(suitable.warnings).help(with_commands(text, &commands)))
}
