//! Compares the packages that a framework requires with the installed ones: C073.

use cudnn_cli::escape::Printable;
use cudnn_probe::python::root_of_packages;
use cudnn_probe::{Os, facts};
use std::path::PathBuf;

use cudnn_frameworks::{Pin, PinState, allows_from};

use super::context::{FrameworkContext, has_record};
use super::remedy::wheels_for_other_cuda;
use super::text::title;
use crate::check::finding::{FRAMEWORK_PIN, Finding, FindingKind, Severity};
use crate::check::framework_requirement::{WHEEL, is_of_conda};
use crate::check::remedies::by_change;
use crate::packages::{PackageChange, Site, with_specifiers};
use crate::remedy::{Action, Remedy, Variable};

/// C073: required packages are missing, or present in the wrong version.
pub(super) fn unmet(context: &FrameworkContext<'_>) -> Option<Finding> {
    let is_unmet =
        |pin: &&Pin| pin.extra.is_none() && matches!(pin.state, PinState::OtherVersion(_) | PinState::Missing);
    let unmet: Vec<&Pin> = context.framework.pins.iter().filter(is_unmet).collect();
    let (title, first) = (context.title(), unmet.first()?);
    let state = |pin: &Pin| match &pin.state {
        PinState::OtherVersion(found) => format!("but {found} is installed"),
        _ => "which is not installed".to_owned(),
    };
    let message = match unmet.len() {
        1 => format!("{title} requires {}, {}", first.without_marker(), state(first)),
        count => format!("{count} packages differ from the versions that {title} requires"),
    };
    let notes = unmet.iter().map(|pin| format!("requires {}, {}", pin.requirement, state(pin)));
    let finding = Finding::new(FRAMEWORK_PIN, message).notes(notes);
    if is_of_conda(context.framework) {
        return Some(finding.remedy("install the versions that it requires, with the installer of this environment"));
    }
    let hidden = unmet.iter().find_map(|pin| off_python_path(pin, context)).or_else(|| unhide(&unmet, context));
    if let Some(remedy) = hidden {
        return Some(finding.remedy(remedy));
    }
    if is_kept(&unmet, context) {
        let kind = FindingKind { severity: Severity::Note, ..FRAMEWORK_PIN };
        let text =
            "keep it: another framework here accepts no older one; or give one of them an environment of its own";
        return Some(Finding { kind, ..finding.remedy(text) });
    }
    Some(finding.remedy(install(&unmet, context).unwrap_or_else(Remedy::new)))
}

/// Returns whether the only difference is a cuDNN that another framework of the environment needs.
fn is_kept(unmet: &[&Pin], context: &FrameworkContext<'_>) -> bool {
    let [Pin { package, state: PinState::OtherVersion(found), .. }] = unmet else { return false };
    package.starts_with(WHEEL) && context.choose_wheel().is_ok_and(|choice| choice.allows(found))
}

/// Installs versions that suit this framework and the others, or explains the conflict.
fn install(unmet: &[&Pin], context: &FrameworkContext<'_>) -> Result<Remedy, String> {
    let (cudnn, others): (Vec<&Pin>, Vec<&Pin>) = unmet.iter().partition(|pin| pin.package.starts_with(WHEEL));
    let requirements = others
        .iter()
        .map(|pin| common_requirement(&pin.package, pin.without_marker(), context))
        .collect::<Result<Vec<_>, _>>()?;
    let (site, text) = (context.site(), "install what it requires:");
    let change = PackageChange::of(site.clone()).install(requirements);
    let Some(pin) = cudnn.first() else { return Ok(by(text, change)) };
    let choice = context.choose_wheel()?;
    let is_right = matches!(&pin.state, PinState::OtherVersion(found) if choice.allows(found));
    let others = wheels_for_other_cuda(&site, &choice);
    let text = match others.is_empty() {
        false => "remove the cuDNN for another CUDA, which owns the same files, and install what it requires:",
        true => text,
    };
    let wanted = if choice.is_demanded { choice.requirement } else { pin.without_marker() };
    let wanted = (!is_right).then_some(wanted);
    let install = wanted.into_iter().chain(change.install).collect();
    Ok(by(text, PackageChange { install, ..change }.remove(others)))
}

fn by(text: &str, change: PackageChange) -> Remedy {
    match change.possible() {
        Some(change) => by_change(text, change),
        None => Remedy::new(text.trim_end_matches(':')),
    }
}

/// Combines what the framework wants of a package with the requirements of all others, or explains the conflict.
pub(super) fn common_requirement(
    package: &str,
    wanted: String,
    context: &FrameworkContext<'_>,
) -> Result<String, String> {
    let mut all = wanted.clone();
    let others = context.survey.frameworks.iter().filter(|other| !std::ptr::eq(*other, context.framework));
    for (other, of_other) in others.flat_map(|other| other.pins.iter().map(move |pin| (other, pin))) {
        let required = of_other.without_marker();
        let Some((specifiers, _)) = allows_from(&required, "0").filter(|_| of_other.package == package) else {
            continue;
        };
        all = with_specifiers(&all, &specifiers);
        if allows_from(&all, "0").is_some_and(|(_, is_allowed)| !is_allowed) {
            return Err(format!(
                "no {package} suits both {} ({wanted}) and {} ({required}): give one of them an environment of its own, \
                 or install releases of both that agree",
                context.title(),
                title(other)
            ));
        }
    }
    let is_exact = wanted.contains("==") && !wanted.contains('*');
    Ok(if is_exact { wanted } else { all })
}

/// Removes the directory with the wrong version from PYTHONPATH, which precedes the packages that pip installs.
fn off_python_path(pin: &Pin, context: &FrameworkContext<'_>) -> Option<Remedy> {
    const NAME: &str = "PYTHONPATH";
    let PinState::OtherVersion(found) = &pin.state else { return None };
    let path = facts::variable(NAME)?;
    let import_dirs = &context.survey.environment.import_dirs;
    let dir = std::env::split_paths(&path).find(|dir| import_dirs.contains(dir) && has_record(dir, &pin.package))?;
    if dir == context.framework.distribution.import_dir {
        return None;
    }
    let (package, shown) = (&pin.package, dir.printable());
    let text = format!("{package} {found} is in {shown}, which {NAME} puts first: remove that from {NAME}:");
    Some(Remedy::new(text).action(Variable::Without { name: NAME, entries: vec![dir.into_os_string()] }))
}

/// Uninstalls wrong versions that Python finds before the framework's own directory, for example in the base of a
/// virtual environment. pip considers the right versions installed even if they are hidden.
fn unhide(unmet: &[&Pin], context: &FrameworkContext<'_>) -> Option<Remedy> {
    let dirs = &context.survey.environment.import_dirs;
    let choice = context.choose_wheel();
    let hiding = |pin: &Pin| {
        let PinState::OtherVersion(found) = &pin.state else { return None };
        // Another framework may need this version.
        let is_wanted = choice.as_ref().is_ok_and(|choice| choice.allows(found));
        let mut before = dirs.iter().take_while(|dir| **dir != context.framework.distribution.import_dir);
        let dir: &PathBuf = before.find(|dir| has_record(dir, &pin.package))?;
        root_of_packages(dir, Os::HOST).filter(|_| !(pin.package.starts_with(WHEEL) && is_wanted))
    };
    let root = unmet.iter().find_map(|pin| hiding(pin))?;
    let hidden: Vec<&&Pin> = unmet.iter().filter(|pin| hiding(pin) == Some(root)).collect();
    let names: Vec<String> = hidden.iter().map(|pin| pin.package.clone()).collect();
    let text = format!(
        "uninstall {} from {}, which Python searches before the version that {} requires:",
        names.join(" and "),
        root.printable(),
        context.title()
    );
    let removal = PackageChange::of(Site::Environment(root.to_owned())).remove(names).possible()?;
    let site = context.site();
    let is_there = |pin: &Pin| {
        let own = site.recorded_version(&pin.package);
        own.is_some_and(|own| pin.without_marker().ends_with(&format!("=={own}")))
    };
    let wanted = hidden.iter().filter(|pin| !is_there(pin)).map(|pin| pin.without_marker());
    let install = PackageChange::of(site.clone()).install(wanted).possible();
    Some(by_change(text, removal).actions(install.map(Action::Packages)))
}
