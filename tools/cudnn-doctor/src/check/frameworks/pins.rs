//! The packages that a framework requires, and those that are installed.

use std::path::{Path, PathBuf};

use cudnn_frameworks::{Framework, Pin, PinState, Survey, allows_from};
use cudnn_probe::packages::{self, Command};

use super::help::{remove_other_cuda, requirement};
use super::text::title;
use crate::check::demand::{WHEEL, is_of_conda};
use crate::check::finding::{FRAMEWORK_PIN, Finding, Help};
use crate::check::fix_commands::with_commands;
use crate::check::machine::Machine;
use crate::check::place::{Place, environment_with, has_record};
use crate::check::suitable::suitable;
use crate::escape::Printable;
use crate::shell::{set_variable, unset_variable};

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
    if let Some(help) = unmet.iter().find_map(|pin| off_python_path(pin, framework, survey)) {
        return Some(finding.help(help));
    }
    if let Some(help) = unhide(&unmet, framework, survey, machine) {
        return Some(finding.help(help));
    }
    // What it requires must suit the other frameworks, too.
    let (cudnn, others): (Vec<&Pin>, Vec<&Pin>) = unmet.iter().partition(|pin| pin.package.starts_with(WHEEL));
    let place = Place::of(framework, survey);
    let install = |requirements: Vec<String>| place.install(requirements);
    let requirements = match others.iter().map(|pin| agreed(pin, framework, survey)).collect::<Result<Vec<_>, _>>() {
        Ok(requirements) => requirements,
        Err(reason) => return Some(finding.help(reason)),
    };
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

/// The requirement of a package that suits all frameworks of the environment.
///
/// # Errors
/// Why no version does.
fn agreed(pin: &Pin, framework: &Framework, survey: &Survey) -> Result<String, String> {
    let wanted = requirement(pin);
    let mut all = wanted.clone();
    let others = survey.frameworks.iter().filter(|other| !std::ptr::eq(*other, framework));
    for (other, of_other) in others.flat_map(|other| other.pins.iter().map(move |pin| (other, pin))) {
        let required = requirement(of_other);
        let Some((specifiers, _)) = allows_from(&required, "0").filter(|_| of_other.package == pin.package) else {
            continue;
        };
        let separator = if allows_from(&all, "0").is_some() { "," } else { "" };
        all = format!("{all}{separator}{specifiers}");
        if allows_from(&all, "0").is_some_and(|(_, is_allowed)| !is_allowed) {
            return Err(format!(
                "no {} suits both {} ({wanted}) and {} ({required}): give one of them an environment of its own, or \
                 install releases of both that agree",
                pin.package,
                title(framework),
                title(other)
            ));
        }
    }
    Ok(if wanted.contains("==") { wanted } else { all })
}

/// Another version is in a directory on PYTHONPATH, which comes before all that pip installs.
fn off_python_path(pin: &Pin, framework: &Framework, survey: &Survey) -> Option<Help> {
    let PinState::OtherVersion(found) = &pin.state else { return None };
    let path = std::env::var_os(PYTHON_PATH)?;
    let of_framework = &framework.distribution.import_dir;
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_first = |dir: &&PathBuf| survey.environment.import_dirs.contains(dir) && has_record(dir, &pin.package);
    let dir = dirs.iter().find(is_first).filter(|dir| *dir != of_framework)?;
    let text = format!(
        "{} {found} is in {}, which PYTHONPATH puts first: take that off PYTHONPATH:",
        pin.package,
        dir.printable()
    );
    let rest = std::env::join_paths(dirs.iter().filter(|other| *other != dir)).ok()?;
    Some(Help::new(text).command(if rest.is_empty() {
        unset_variable(PYTHON_PATH)
    } else {
        set_variable(PYTHON_PATH, Path::new(&rest))
    }))
}

/// Other versions are in an environment that Python searches before the one of the framework: a virtual environment that
/// includes its base, for example. There, pip regards the right versions as installed, whatever hides them.
fn unhide(unmet: &[&Pin], framework: &Framework, survey: &Survey, machine: &Machine) -> Option<Help> {
    let dirs = &survey.environment.import_dirs;
    let suitable = suitable(&survey.frameworks, machine);
    let hiding = |pin: &Pin| {
        let PinState::OtherVersion(found) = &pin.state else { return None };
        // Another framework may want it.
        let is_wanted = suitable.as_ref().is_ok_and(|suitable| suitable.allows(found));
        let mut before = dirs.iter().take_while(|dir| **dir != framework.distribution.import_dir);
        let dir = before.find(|dir| has_record(dir, &pin.package))?;
        environment_with(dir).filter(|_| !(pin.package.starts_with(WHEEL) && is_wanted))
    };
    let root = unmet.iter().find_map(|pin| hiding(pin))?;
    let hidden: Vec<&&Pin> = unmet.iter().filter(|pin| hiding(pin) == Some(root)).collect();
    let names = hidden.iter().map(|pin| pin.package.clone());
    let removal = packages::pip(Some(root), "uninstall", ["--yes".to_owned()].into_iter().chain(names.clone()))?;
    let place = Place::of(framework, survey);
    let is_there = |pin: &Pin, wanted: &str| {
        place.recorded_version(&pin.package).is_some_and(|own| wanted.ends_with(&format!("=={own}")))
    };
    let wanted = hidden.iter().map(|pin| (pin, requirement(pin))).filter(|(pin, wanted)| !is_there(pin, wanted));
    let wanted: Vec<String> = wanted.map(|(_, wanted)| wanted).collect();
    let install = if wanted.is_empty() { None } else { place.install(wanted) };
    let names = names.collect::<Vec<_>>().join(" and ");
    let (root, title) = (root.printable(), title(framework));
    let text =
        format!("uninstall {names} from {root}, which Python searches before the version that {title} requires:");
    Some(with_commands(text, &[removal].into_iter().chain(install).collect::<Vec<_>>()))
}

const PYTHON_PATH: &str = "PYTHONPATH";
